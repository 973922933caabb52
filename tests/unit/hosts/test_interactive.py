"""Test which command lines wait for typed input."""

import random

import pytest

from callosum.hosts.interactive import waits

WAITING = """
bash
bash -i
/bin/sh
bash --login
bash --rcfile ours.rc
bash -o pipefail
bash -s -- a b
bash -x
bash /dev/stdin
bash < /dev/tty
bash &
cd src && bash
bash; echo done
(bash)
if true; then bash; fi
$(python)
exec zsh
env A=1 bash
FOO=1 python
nohup bash
timeout 100 bash
true | cat; bash
cat | bash
cat - | python
tee | sh
bash -c bash
bash -lc 'python3'
source /dev/stdin
sudo bash
sudo -i
sudo -s
sudo -u bob bash
su
su - root
chroot /mnt
nix-shell -p jq
script -q /dev/null
ssh host
ssh -p 22 me@host
ssh -t host bash
docker exec -it web bash
docker run -it --rm python
docker compose exec db psql -U me
kubectl exec -it pod -- /bin/sh
python3 -u
python3.11
python -i run.py
python -
python -m pdb run.py
python -m code
uv run ipython
poetry shell
python manage.py shell
rails console
rails c
php -a
php artisan tinker
node
node -i
deno repl
irb
ghci
perl
R
psql
psql -h db me
mysql -u me shop
sqlite3 shop.db
redis-cli -h cache
gdb ./a.out
telnet mail 25
nc mail 25
tmux
tmux attach
screen
vim notes.txt
ed notes.txt
"""
NOT_WAITING = """
bash run.sh
bash -x run.sh
bash -euo pipefail run.sh
bash -o errexit run.sh
bash -eu -o pipefail -c 'make'
bash -lc 'make test'
bash -c 'echo hi' bash
bash -n run.sh
bash --version
bash < run.sh
sh -c 'cat'
fish -c ls
echo make | bash
curl -fsS https://example.com/get.sh | sh -s -- -y
cat run.sh | sh
cat run.py | python
cat log | grep x | sh
printf x | ssh host
# bash
echo 'unclosed
echo bash
which bash
command -v python
type bash
ls /bin/bash
man bash
make shell
apt install python3
sudo apt install bash
sudo -l
sudo -E bash install.sh
env
for shell in bash zsh; do echo $shell; done
find . -name python -exec ls {} ;
grep -r python .
chroot /mnt ls
nohup python serve.py &
source .venv/bin/activate
. ./env.sh
eval "$(ssh-agent -s)"
ssh host uptime
ssh host 'cd /srv && make'
ssh -N -L 8080:db:80 host
ssh -T git@github.com
ssh -V
docker ps
docker run --rm -v x:/y python:3 python run.py
docker run -i image python run.py
docker run -it --name bash image ls
docker exec -i db psql -c 'select 1'
docker exec web bash -c ls
docker compose exec -T db psql
docker compose exec web python manage.py migrate
docker compose run web bash -c ls
podman run -it image bash run.sh
kubectl exec pod -- ls
kubectl get pods
kubectl run x --image=python
python run.py
python run.py -i
python -c 'print(1)'
python -m pytest
python -m venv .venv
python -m http.server
python -V
python3 --version
python3 -W ignore run.py
python < run.py
poetry run pytest
python manage.py migrate
rails test
node app.js
node app.js repl
node -e 1
node --test
npx ts-node run.ts
deno run run.ts
bun test
perl -ne 'print' log
perl -pi -e s/a/b/ log
ruby -e 1
php run.php
php -r 'echo 1;'
R CMD check .
R -e '1'
Rscript run.R
julia run.jl
psql -c 'select 1' shop
psql -tAc 'select 1'
psql -f shop.sql
psql < shop.sql
mysql -e 'select 1'
sqlite3 shop.db 'select 1'
sqlite3 shop.db .tables
redis-cli get x
redis-cli -h cache ping
mongosh --eval 'db.x'
gdb -batch -ex bt ./a.out
nc -zv host 80
nvim --headless -c quit
tmux new -d -s x 'make'
tmux ls
screen -dm make
"""
OF_SEVERAL_LINES = (
    "bash <<'END'\nls\nEND", "python - <<'END'\nprint(1)\nEND", "cat > run.sh <<'END'\nbash\npython\nEND",
    "bash <<< 'ls'", "", " ", "\n",
)  # fmt: skip


@pytest.mark.parametrize("line", WAITING.strip().splitlines())
def test_command_line_waits(line: str) -> None:
    assert waits(line)


@pytest.mark.parametrize("line", [*NOT_WAITING.strip().splitlines(), *OF_SEVERAL_LINES])
def test_command_line_does_not_wait(line: str) -> None:
    assert not waits(line)


def test_any_text_gets_an_answer() -> None:
    chance = random.Random(7)
    parts = [*WAITING.split(), *NOT_WAITING.split(), *"|;&(){}<>\n'\"$`\\-", "$(", "<<", "\x00", "é"]
    for _ in range(2000):
        waits(" ".join(chance.choices(parts, k=chance.randrange(1, 30))))


def test_endless_nesting_gets_an_answer() -> None:
    waits("bash -c '" * 50 + "bash")
    waits("ssh host " * 500)
    waits("docker exec -it " + "bash " * 2000)
    waits("sudo " * 5000 + "bash")
    waits("cat | " * 300 + "bash")
