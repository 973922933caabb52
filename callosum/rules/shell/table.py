"""The table: program, first words, options -> how grave it is, which keys, and what it does in words.

One row a line (an indented line goes on with the one before); the first that fits wins; what fits no
row of its program goes by the generic rule (``verbs``). Columns, separated by bars:

* programs
  (``@name`` stands for those of a list above)
* the first words, alternatives separated by commas; ``""``: none; ``*`` alone: any or none; ``version *``: the second
  is any word, and is one of the first words
* options, one of which must be given; ``!`` before one: it must not; ``$()``: some words are another command's output
* the tier, or the name of a setting of ``ShellPolicy``
* keys: ``entity:{1}`` (first word after the first words), ``{*}`` (each of them), ``{0}`` (the first word of all),
  ``{--opt}`` (an option's value), ``{cwd}`` (the folder), ``{worktree}`` (the root of the
  worktree it lies in), ``{project}`` (the folder as all worktrees of its
  repository would call it: for what lies outside of them), ``{repo}`` (the hosted repository that an option names,
  else that of the folder), ``{space}`` (the cluster and the namespace that options name); ``+`` before one: an
  append, ``?``: a read
* what it does
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Mode
from callosum.rules import keys
from callosum.rules.shell import options, verbs

if TYPE_CHECKING:
    from callosum.rules.shell.run import Run

ROWS: Final = """
@builders gem bundle bundler composer go cargo nuget dotnet mix cabal stack opam rustup nvm fnm asdf mise rbenv
    pyenv sdk pod flutter dart swift luarocks cpan
@machine apt apt-get aptitude dnf yum zypper pacman apk brew port snap flatpak choco winget scoop
@docker docker podman nerdctl
@network nmcli ifdown ifup netplan brctl networkctl dhclient wpa_cli tc ethtool
@tasks nx turbo lerna rush deno
@compilers mvn mvnw gradle gradlew sbt ant
@django manage.py django-admin django-admin.py django
@orm sequelize sequelize-cli knex typeorm typeorm-ts-node-commonjs drizzle-kit mikro-orm node-pg-migrate db-migrate
@migrators goose dbmate migrate sqlx diesel flyway liquibase atlas yoyo sqitch ecto tern
# Version control besides git
hg svn jj | status, stat, st, log, diff, di, show, cat, annotate, blame, praise, info, identify, id, incoming, outgoing,
    parents, paths, summary, files, manifest, root, list, ls, proplist, propget, evolog, interdiff, op log, operation
    log, file list, file show, bookmark list, workspace list, git remote list, config list, config get, help,
    version, "" | | 0 | | only looks
hg | strip, purge, revert, rollback, histedit, prune | | discard | file:{cwd}/ | throws away what no
    other commit holds
hg | update, up, checkout, co | -C --clean | discard | file:{cwd}/ | throws away changes that no commit holds
svn | revert | | discard | file:{cwd}/ | throws away changes that no commit holds
svn | cleanup | --remove-unversioned --remove-ignored | discard | file:{cwd}/ | removes files that no commit holds
hg | push | -f --force | force_push | checkout:{project} | replaces what others may have pushed
hg jj | push, git push | | push | checkout:{project} | pushes
svn | commit, ci, import, lock, unlock | | push | checkout:{project} | changes what others fetch
hg svn jj | * | | 1 | checkout:{project} | changes a working copy or its history
# Packages of a project, and of the machine
mix | ecto.drop, ecto.reset | | 4 | database:{project} migration:{cwd} | empties a database
mix | ecto.migrate, ecto.rollback, ecto.setup, ecto.create, ecto.load | | migrate | database:{project} migration:{cwd} |
    changes the schema of a database
dotnet | ef database drop | | 4 | database:{project} migration:{cwd} | empties a database
dotnet | ef database update | | migrate | database:{project} migration:{cwd} | changes the schema of a database
npm pnpm yarn | publish, unpublish, deprecate, dist-tag add, dist-tag rm, owner add, owner rm, npm publish, npm
    unpublish, stage publish, access grant, access revoke, access public, access restricted, access set, token
    create, token revoke, team add, team rm | | publish | package:{project} | changes what others fetch from
    the registry
npm pnpm | org set, org rm, team rm, team destroy, profile set | | 4 | | changes access
npm pnpm yarn bun | pack, pm pack | | 1 | | packs the package into a file
lerna | version | | push | file:{cwd}/package.json | sets the versions of the packages, commits, tags and pushes
npm pnpm | version * | | 1 | file:{cwd}/package.json | sets the version of the package, commits and tags it
yarn changeset | version | | 1 | file:{cwd}/package.json | sets the version of the package
poetry pdm hatch uv rye | version * | | 1 | file:{cwd}/pyproject.toml | sets the version of the project
npm pnpm yarn bun | config set, config delete, config rm | | 2 | setting:npm | changes from where all projects of the
    user fetch packages, and how
pip pip3 | config set, config unset, config edit | | 2 | setting:pip | changes from where all projects of the user fetch
    packages, and how
npm pnpm | uninstall, remove, rm, un, r | -g --global | 2 | packages:npm | removes packages of the machine
npm pnpm | install, i, add, update, up, upgrade, link | -g --global | 2 | +packages:npm | installs packages for the
    machine
npm pnpm yarn bun | install, i, add, ci, link, "" | | 1 | +packages:npm:{cwd} | installs packages
npm pnpm yarn bun | uninstall, remove, rm, un, r, update, up, upgrade, dedupe, prune, audit fix | | 1 |
    packages:npm:{cwd} | changes packages
npm pnpm yarn bun | ls, list, view, info, show, outdated, audit, why, explain, search, whoami, ping, doctor, config
    get, config list, root, prefix, bin, help, pkg get, licenses | | 0 | | only looks
@tasks npm pnpm yarn bun | deploy, release, publish, ship, run deploy, run release, run publish, run ship | | 3 |
    deployment:{project} | runs a task that by its name makes something public
@tasks npm pnpm yarn bun | build, run build, run-script build, run compile, run dist, run bundle | | 1 | build:{cwd}
    | builds into the project's output folder
@tasks npm pnpm yarn bun | * | | 1 | | runs a task of the project
pip pip3 uv pipx poetry pdm conda mamba micromamba rye pipenv | publish, upload | | publish | | changes what others
    fetch from the index
twine | upload | | publish | | changes what others fetch from the index
pip pip3 uv poetry pdm pipenv conda mamba micromamba | install, add, pip install, sync, pip sync, create, lock, env
    create | | 1 | +packages:python:{cwd} | installs packages
pip pip3 uv poetry pdm pipenv conda mamba micromamba rye | uninstall, remove, pip uninstall, update, upgrade, env
    remove, cache purge, cache clean, cache clear | | 1 | packages:python:{cwd} | changes packages
pip pip3 uv poetry pdm pipenv conda mamba micromamba | list, show, freeze, check, pip list, pip show, pip freeze,
    tree, search, info, env list, config list, cache dir, index versions, debug, version, self show | | 0 | | only
    looks
pip pip3 uv poetry pdm hatch pipenv pipx rye tox nox pytest | * | | 1 | | works on the project's environment
cargo | publish, yank, owner | | publish | | changes what others fetch from the registry
gem | push, yank, owner | | publish | | changes what others fetch from the registry
@builders | uninstall, remove, rm, clean, cache clean, update, upgrade, delete | | 1 | packages:{cwd} | changes
    packages
@builders | install, add, get, require, restore, vendor, fetch, mod tidy, mod download, mod vendor, pub get, pub add |
    | 1 | +packages:{cwd} | installs packages
@builders | list, show, info, search, outdated, tree, metadata, version, env, doc, help, why, current, which, where,
    vet, check, clippy | | 0 | | only looks
mvn mvnw gradle gradlew sbt ant lein bazel | deploy, deploy:deploy, release:perform, release:prepare, publish,
    publishPlugins, publishAllPublicationsToMavenRepository, uploadArchives | | publish | | changes what others
    fetch from the repository
@builders mvn mvnw gradle gradlew sbt ant lein bazel cmake ninja meson make gmake just task tsc eslint prettier ruff
    mypy black jest vitest tox nox | nuget push | | publish | | changes what others fetch from the registry
make gmake ninja | * | -n --just-print --recon -q --question | 0 | | only tells what it would do
make gmake just task rake invoke | deploy, release, publish, ship | | 3 | deployment:{project} | runs a task that by
    its name makes something public
make gmake just task rake invoke gradle gradlew | destroy, nuke, drop, drop-db, db-drop, db-reset, wipe, purge,
    teardown | | 3 | | runs a task that by its name destroys
make gmake ninja | "", all, build, dist, bundle, compile, install | | 1 | build:{cwd} | builds into the project's
    output folder
@compilers | package, install, build, assemble, compile, verify, jar, test, clean package, clean install, clean build,
    clean verify, clean compile, clean test | | 1 | build:{cwd} | builds into the project's output folder
lcov gcov gcovr genhtml | * | | 1 | | works on the project
cmake | * | --build --install | 1 | build:{cwd} | builds into the project's output folder
next nuxt vite astro gatsby webpack meson rollup parcel | build, compile | | 1 | build:{cwd} | builds into the
    project's output folder
webpack tsc | "", -b, --build, -p | !--noEmit !--watch !-w | 1 | build:{cwd} | builds into the project's output folder
@builders mvn mvnw gradle gradlew sbt ant lein bazel cmake ninja meson make gmake just task invoke tsc eslint
    prettier ruff mypy black isort jest vitest playwright cypress pre-commit gcc g++ clang rustc javac cc ld as tox
    nox | * | | 1 | | works on the project
@machine | list, search, show, info, policy, -Q, -Ss, -Qi, -Ql, deps, uses, leaves, outdated, cat, home, doctor,
    config, --version, log | | 0 | | only looks
apt apt-get aptitude dnf yum zypper | remove, purge, autoremove, autopurge, erase, upgrade | -s --dry-run --simulate
    --just-print --assumeno | 0 | | only tells what it would do
apt apt-get aptitude dnf yum zypper | install, update, reinstall, build-dep, download, add, refresh, clean,
    autoclean, makecache | -s --dry-run --simulate --just-print | 0 | | only tells what it would do
apt apt-get aptitude | purge, autopurge | | 4 | packages:machine | removes programs of the machine with what they are
    set to
apt apt-get aptitude | remove, autoremove | --purge | 4 | packages:machine | removes programs of the machine with what
    they are set to
pacman | -Rns, -Rnsc, -Rdd, -Rscn | | 4 | packages:machine | removes programs of the machine with what they are set to
brew | uninstall, remove, rm | --force --zap --ignore-dependencies | 4 | packages:machine | removes all versions of
    programs of the machine
@machine | remove, purge, autoremove, uninstall, del, -R, -Rs, -Rns, erase, upgrade, dist-upgrade, full-upgrade,
    -Syu, rm | | 2 | packages:machine | changes programs of the machine
@machine dpkg rpm | * | | 1 | +packages:machine | installs programs on the machine

# Containers
@docker | ps, images, logs, inspect, stats, top, port, diff, history, info, version, search, events, image ls, image
    list, image inspect, container ls, container list, container inspect, container logs, volume ls, volume inspect,
    network ls, network inspect, system df, system info, context ls, compose ps, compose logs, compose config,
    compose images, compose top, compose ls, compose version, manifest inspect, buildx ls, buildx du | | 0 | | only
    looks
@docker | volume rm, volume remove, volume prune | | 4 | volume:{*} | deletes volumes with their data
@docker | system prune, image prune, builder prune, buildx prune, container prune | -a --all --volumes | 4 |
    containers:all | deletes all that no container uses at the moment
@docker | system prune, image prune, builder prune, buildx prune, container prune, network prune | | 2 |
    containers:all | deletes what no container uses
@docker | rm, container rm, container remove, rmi, image rm, image remove, stop, container stop, network rm | $() |
    4 | containers:all | deletes or stops what the command does not name
podman | rm, pod rm, rmi, stop, kill | -a --all -af -fa | 4 | containers:all | deletes or stops what the command does
    not name
@docker | rm, container rm, container remove, rmi, image rm, image remove | -f --force -v --volumes | 4 |
    container:{*} | deletes containers or images by force
@docker | rm, container rm, container remove, rmi, image rm, image remove, network rm, network remove | | 2 |
    container:{*} | deletes containers or images
@docker | swarm leave, stack rm, service rm, node rm, secret rm, config rm, swarm init, swarm join | | 4 |
    service:{*} | changes the cluster
@docker | kill, stop, pause, container kill, container stop, container pause | | service | container:{*} | stops
    what others may use
@docker | restart, start, unpause, rename, update, container restart, container start | | 2 | container:{*} | starts
    containers
@docker | push, image push, manifest push | | publish | image:{1} | publishes an image
@docker | compose down, compose rm | -v --volumes | 4 | compose:{cwd} | deletes containers and their volumes with
    all data
docker-compose podman-compose | down, rm | -v --volumes | 4 | compose:{cwd} | deletes containers and their volumes
    with all data
@docker | compose down, compose rm, compose stop, compose kill, compose restart, compose pause | | 3 | compose:{cwd}
    | stops the project's containers
docker-compose podman-compose | down, rm, stop, kill, restart, pause | | 3 | compose:{cwd} | stops the project's
    containers
@docker | compose up, compose start, compose create, compose build, compose pull, compose run, compose exec, compose
    cp, compose watch | | 1 | +compose:{cwd} | starts the project's containers
docker-compose podman-compose | ps, logs, config, images, top, port, version | | 0 | | only looks
docker-compose podman-compose | * | | 1 | +compose:{cwd} | starts the project's containers
@docker | login, logout | | 2 | | changes who it speaks as
@docker | run, create, build, pull, tag, load, save, import, export, commit, cp, exec, attach, wait, image build,
    image pull, image tag, image load, image save, volume create, network create, network connect, network
    disconnect, buildx build, builder build, context use, container create, container run, container exec | | 1 | |
    works on containers

# Clusters
kubectl oc k | get, describe, logs, top, explain, version, api-resources, api-versions, cluster-info, auth can-i,
    config view, config get-contexts, config current-context, diff, rollout status, rollout history, wait, events,
    options, completion | | 0 | | only looks
kubectl oc k | delete | | 4 | cluster:{space}{1}/{2} | deletes what runs in the cluster
kubectl oc k | drain, cordon, uncordon, taint, scale, rollout undo, rollout restart, rollout pause, rollout resume,
    autoscale, evict, adm drain, debug node | | 4 | cluster:{space}{1}/{2} | changes what runs in the cluster at once
kubectl oc k | apply, replace, patch, create, run, expose, set, edit, label, annotate | --force --prune
    --grace-period | 4 | cluster:{space}{1}/{2} | replaces what runs in the cluster by force
kubectl oc k | create secret, create role, create rolebinding, create clusterrole, create clusterrolebinding, create
    serviceaccount, create token, certificate approve, certificate deny, auth reconcile, policy add-role-to-user | |
    4 | cluster:{space}{1}/{2} | changes access or configuration
kubectl oc k | set image, set env, set resources, set selector, set serviceaccount, set subject | | 4 |
    cluster:{space}{1} | changes the configuration of what runs
kubectl oc k | config use-context, config set-context, config set, config unset, config delete-context, config
    delete-cluster, config rename-context | | 2 | setting:kubectl | changes which cluster
    all commands of the user speak to
kubectx kubens | "", -c, --current, -h | | 0 | | only looks
kubectx kubens | * | | 2 | setting:kubectl | changes which cluster all commands of the user speak to
kubectl oc k | set, edit, patch, replace, certificate | | 4 | cluster:{space}{1}/{2} | changes the configuration of what
    runs
kubectl oc k | apply, create, run, expose, label, annotate | | 3 | cluster:{space}{1}/{2} | changes what runs in the
    cluster
kubectl oc k | port-forward, proxy, cp, attach, exec, kustomize | | 1 | | works with the cluster from here
gcloud | config set, config configurations activate | | 2 | setting:gcloud | changes which project all commands of the
    user speak to
gcloud | run deploy, functions deploy, run services update, builds submit | | 3 | service:{1} | changes what runs
gcloud | app deploy | | 3 | deployment:{project} | changes what runs
az | account set | | 2 | setting:az | changes which account all commands of the user speak to
az | aks get-credentials | | 2 | setting:kubectl | changes which cluster all commands of the user speak to
gcloud | container clusters get-credentials, container fleet memberships get-credentials | | 2 | setting:kubectl |
    changes which cluster all commands of the user speak to
aws | eks update-kubeconfig | | 2 | setting:kubectl | changes which cluster all commands of the user speak to
doctl | kubernetes cluster kubeconfig save | | 2 | setting:kubectl | changes which cluster all commands of the user
    speak to
vercel now netlify surge | "", deploy, --prod, redeploy | | 3 | deployment:{project} | makes something public
az | webapp up, containerapp up | | 3 | deployment:{project} | changes what runs
aws | configure list, configure get, configure list-profiles | | 0 | | only looks
aws | configure, configure set, configure sso | | 2 | setting:aws | changes which account all commands of
    the user speak to
helm | list, ls, status, get, history, show, search, template, lint, version, env, repo list, dependency list,
    verify, diff | | 0 | | only looks
helm | uninstall, delete, del, un, rollback | | 4 | release:{space}{1} | removes or takes back a release
helm | upgrade, install | --force --reset-values --replace | 4 | release:{space}{1} | replaces a release by force
helm | upgrade, install, push, test | | 3 | release:{space}{1} | changes a release
helm | * | | 1 | | works on charts
terraform tofu terragrunt | plan, show, validate, version, output, providers, graph, state list, state show, state
    pull, workspace list, workspace show, console, metadata, test, get | | 0 | | only looks
terraform tofu terragrunt | fmt | -check | 0 | | only looks
terraform tofu terragrunt | fmt | | 1 | | puts files into form
terraform tofu terragrunt | init, workspace select, workspace new, login | | 1 | terraform:{project} | prepares the
    folder
terraform tofu terragrunt | * | | 4 | terraform:{project} | changes real infrastructure, or what is known of it
pulumi cdk cdktf serverless sls sam copilot amplify | preview, diff, synth, list, ls, whoami, stack ls, stack
    output, config get, logs, info, validate, version, about, print, metrics | | 0 | | only looks
pulumi cdk cdktf | up, update, deploy, destroy, refresh, import, cancel, state delete, stack rm | | 4 |
    infrastructure:{project} | changes real infrastructure
ansible-playbook ansible | * | --check -C --syntax-check --list-hosts --list-tasks | 0 | | only tells what it would do
ansible-playbook ansible | * | | 4 | infrastructure:{project} | changes the machines of an inventory
chef-client puppet salt | * | | 4 | infrastructure:{project} | changes machines

nomad | system gc | | 4 | infrastructure:nomad | removes what has ended, and its logs
heroku | ps:stop, ps:kill | | 4 | heroku:{cwd} | stops what others use
# Hosted repositories
gh glab hub tea | repo delete, repo archive, repo rename, repo unarchive, project delete, repo transfer | | 4 |
    repo:{1} | removes, renames or archives a repository
gh glab | repo edit, repo deploy-key add, repo deploy-key delete, repo fork --sync | | 4 | repo:{1} | changes the
    configuration of a repository
gh glab | release delete, secret delete, secret set, secret remove, variable delete, variable set, gist delete,
    label delete, cache delete, run delete, codespace delete, ssh-key delete, ssh-key add, gpg-key delete, gpg-key
    add, issue delete, ruleset create, auth logout, environment delete | | 4 | | deletes what lasts, or changes
    access
gh glab | auth status, auth token, repo view, repo list, repo clone, pr list, pr view, pr status, pr diff, pr
    checks, mr list, mr view, mr diff, issue list, issue view, issue status, run list, run view, run watch, workflow
    list, workflow view, release list, release view, release download, search, status, browse, gist list, gist view,
    secret list, variable list, label list, ci list, ci status, ci view, ci trace, project list, project view, cache
    list, ruleset list, ruleset view, extension list, alias list, config get, config list, org list, ssh-key list,
    gpg-key list, attestation verify | | 0 | | only looks
gh glab | pr create, mr create | | 2 | +pr:{repo}/|new | opens something others will read
gh glab | issue create | | 2 | +issue:{repo}/|new | opens something others will read
gh glab | pr merge, mr merge | --admin | 4 | pr:{repo}/{1} | merges past the rules of the repository
gh glab | pr merge, mr merge | | 3 | pr:{repo}/{1} | merges
gh glab | pr comment, pr review, mr note, mr approve | | 2 | +pr:{repo}/{1}|comment | says something others will read
gh glab | issue comment, issue note | | 2 | +issue:{repo}/{1}|comment | says something others will read
gh glab | pr close, pr reopen, pr edit, pr ready, mr close, mr reopen, mr update | | 2 | pr:{repo}/{1} | changes a
    request to merge
gh glab | issue close, issue reopen, issue edit, issue lock, issue pin, issue update, issue transfer | | 2 |
    issue:{repo}/{1} | changes an issue
gh glab | pr checkout, mr checkout | | 1 | git:{worktree}|HEAD | goes to another branch
gh glab | release create, release upload, release edit | | publish | release:{repo}/{1} | publishes a release
gh glab | run rerun, run cancel, workflow run, workflow enable, workflow disable, ci run, ci retry, ci cancel, gist
    create, repo create, repo fork, repo sync, label create | | 2 | | changes something others will see
pre-commit | * | | 1 | | works on the project

# The machine
systemctl | status, show, list-units, list-unit-files, list-timers, list-dependencies, list-sockets, is-active,
    is-enabled, is-failed, cat, help, get-default, show-environment | | 0 | | only looks
systemctl | stop, disable, mask, kill, isolate, poweroff, reboot, halt, suspend, hibernate, rescue, emergency,
    set-default, set-property, revert | --user | 2 | service:{*} | stops a service of the user
systemctl | stop, disable, mask, kill, isolate, poweroff, reboot, halt, suspend, hibernate, rescue, emergency,
    set-default, set-property, revert, edit, unmask | | service | service:{*} | stops or reconfigures a service of
    the machine
systemctl | start, restart, reload, enable, try-restart, reload-or-restart, reset-failed, daemon-reload,
    daemon-reexec, link | | 3 | service:{*} | starts a service of the machine
systemctl | "" | | 0 | | only looks
service rc-service | * status, --status-all | | 0 | | only looks
service rc-service | * stop, * kill | | service | service:{0} | stops a service of the machine
service rc-service | * | | 3 | service:{0} | starts a service of the machine
launchctl | list, print, blame | | 0 | | only looks
launchctl | unload, bootout, remove, disable, kill, stop | | service | service:{1} | stops services of the machine
launchctl | load, bootstrap, enable, kickstart, start | | 3 | service:{1} | starts services of the machine
launchctl | * | | 3 | | works on services of the machine
supervisorctl pm2 forever | status, list, ls, logs, show, describe, info, monit, tail, pid, jlist | | 0 | | only looks
supervisorctl pm2 forever | * | | 2 | service:{*} | starts or stops services
nginx haproxy apachectl httpd apache2ctl caddy traefik | -s stop, -s quit, stop, graceful-stop, kill, shutdown | |
    service | service:web | stops a server that others may use
reboot shutdown halt poweroff | * | | 4 | machine:power | ends or restarts the machine
stop-computer restart-computer | * | | 4 | machine:power | ends or restarts the machine
stop-service remove-service | * | | service | service:{1} | stops a service of the machine
clear-disk format-volume initialize-disk remove-partition set-executionpolicy bcdedit | * | | 4 | machine:disk | changes
    the configuration of the machine
net | user * *, localgroup * *, group * * | | 4 | machine:users | changes who may use the machine
net | stop | | service | service:{1} | stops a service of the machine
net | start | | 3 | service:{1} | starts a service of the machine
net | user, localgroup, group, view, statistics, config, accounts, session | | 0 | | only looks
journalctl | * | --vacuum-time --vacuum-size --vacuum-files | 4 | machine:log | deletes the log of the machine
journalctl | * | --rotate --flush --relinquish-var | 2 | machine:log | turns over the log of the machine
journalctl | * | | 0 | | only looks
init telinit | 0, 1, 6, s | | 4 | machine:power | ends or restarts the machine
iptables ip6tables iptables-legacy | * | -L -S -C --list --list-rules --check -V | 0 | | only looks
iptables ip6tables iptables-legacy iptables-restore ip6tables-restore ebtables arptables | * | | 4 |
    machine:firewall | changes what may reach the machine
ufw | status, show, app list, version | | 0 | | only looks
nft | list, describe | | 0 | | only looks
firewall-cmd | * | --list-all --state --get-zones --list-services --list-ports --get-active-zones | 0 | | only looks
ufw nft firewall-cmd pfctl | * | | 4 | machine:firewall | changes what may reach the machine
@network | status, show, list, get, device, general, try, qdisc show, -s, dev status, con show, connection show,
    device status, device show | | 0 | | only looks
@network | * | | 4 | machine:network | changes the network of the machine
useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd chpasswd passwd visudo chsh chage vipw
    newgrp addgroup delgroup dscl | * | | 4 | machine:users | changes who may use the machine
sysctl | * | -w --write -p --load --system | 4 | machine:kernel | changes the kernel's settings
sysctl | * | | 0 | | only looks
modprobe insmod rmmod kextload kextunload setenforce swapoff swapon update-grub grub-install efibootmgr
    update-alternatives ldconfig timedatectl hostnamectl localectl semanage aa-disable nvram csrutil spctl | * | | 4 |
    machine:kernel | changes the configuration of the machine
nsupdate rndc | * | | 4 | machine:dns | changes names that others look up
ssh-keygen | * | -l -y -F -B | 0 | | only looks
ssh-keygen | * | -R -r -k | 4 | machine:keys | changes whom the machine trusts
ssh-keygen | * | | 2 | file:{-f} | makes a key
ssh-add | * | -l -L | 0 | | only looks
ssh-add | * | -d -D -x | 4 | machine:keys | takes keys away
ssh-copy-id | * | | 4 | machine:keys | gives a key access to another machine
gpg gpg2 | * | --delete-keys --delete-key --delete-secret-keys --delete-secret-key --delete-secret-and-public-key
    --gen-revoke --send-keys --revoke-uid | 4 | machine:keys | deletes or publishes keys
gpg gpg2 | * | --list-keys --list-secret-keys -k -K --verify --fingerprint --list-packets --version | 0 | | only looks
openssl | x509, s_client, verify, version, ciphers, dgst, rand, asn1parse, crl, list, speed | !-out | 0 | | only looks
openssl | * | | 1 | file:{-out} file:{-keyout} | works with keys
security | delete-keychain, delete-certificate, delete-identity, delete-generic-password, delete-internet-password,
    remove-trusted-cert, add-trusted-cert | | 4 | machine:keys | changes what the machine keeps and trusts
gpg gpg2 ssh-add ssh-agent certbot keytool security | * | | 1 | | works with keys
zpool zfs btrfs | list, get, status, history, iostat, subvolume list, subvolume show, filesystem df, filesystem
    show, filesystem usage, version | | 0 | | only looks
zpool zfs btrfs | destroy, rollback, labelclear, remove, detach, offline, subvolume delete, device remove, device
    delete, upgrade | | 4 | disk:{1} | destroys what a disk holds
rclone | sync, bisync, move, moveto, cleanup | | mirror | | makes a tree the same as another one
tmux screen zellij | ls, list-sessions, list-windows, list-panes, capture-pane, display-message, show-options, -ls |
    | 0 | | only looks
tmux | kill-server, kill-session, kill-window, kill-pane | | 2 | process:tmux | ends what runs in other windows
tmux screen zellij | * | | 1 | | works with terminals
atq | * | | 0 | | only looks
atrm | * | | 3 | | takes back what was to run later

# Migrations, and databases as a whole
prisma | migrate reset | | 4 | database:{project} migration:{cwd} | empties a database
prisma | db push | --accept-data-loss --force-reset | 4 | database:{project} migration:{cwd} | changes a database, data
    or not
prisma | migrate dev, migrate deploy, db push, db execute, migrate resolve | | migrate | database:{project}
    migration:{cwd} | changes the schema of a database
prisma | migrate status, migrate diff, validate, version, format | | 0 | | only looks
alembic | downgrade base | | 4 | database:{project} migration:{cwd} | takes back all migrations
alembic | downgrade | | migrate | database:{project} migration:{cwd} | takes back migrations
alembic | upgrade, stamp | | migrate | database:{project} migration:{cwd} | changes the schema of a database
alembic | current, history, heads, show, check, branches | | 0 | | only looks
alembic | * | | 1 | migration:{cwd} | writes a migration
rails rake bin/rails bundle | db:drop, db:reset, db:migrate:reset, db:schema:load, db:purge, db:truncate_all,
    db:seed:replant, db:structure:load | | 4 | database:{project} migration:{cwd} | empties a database
rails rake bin/rails bundle | db:migrate, db:rollback, db:setup, db:create, db:migrate:up, db:migrate:down,
    db:migrate:redo, db:prepare, db:seed | | migrate | database:{project} migration:{cwd} | changes the schema of a
    database
rails rake bin/rails bundle | db:migrate:status, db:version, routes, about, stats, -T | | 0 | | only looks
@django | flush, reset_db, sqlflush | | 4 | database:{project} | empties a database
@django | migrate | --plan --check --list -l | 0 | | only looks
@django | migrate, loaddata, syncdb | | migrate | database:{project} migration:{cwd} | changes the schema of a database
@django | makemigrations, squashmigrations | | 1 | migration:{cwd} | writes a migration
@django | showmigrations, check, diffsettings, sqlmigrate, inspectdb, dumpdata | | 0 | | only looks
@django | * | | 1 | | works on the project
artisan console bin/console | migrate:fresh, migrate:reset, migrate:refresh, db:wipe, doctrine:database:drop,
    doctrine:schema:drop | | 4 | database:{project} migration:{cwd} | empties a database
artisan console bin/console | migrate, migrate:rollback, db:seed, doctrine:migrations:migrate,
    doctrine:schema:update, migrate:install | | migrate | database:{project} migration:{cwd} | changes the schema of a
    database
artisan console bin/console | migrate:status, route:list, list, about, env | | 0 | | only looks
artisan console bin/console rails rake bin/rails | * | | 1 | | works on the project
@orm | db:drop, schema:drop, db:reset, migrate:reset, drop, db:migrate:undo:all | | 4 | database:{project}
    migration:{cwd} | empties a database
@orm @migrators | clean, drop, drop-all, dropAll, database drop, database reset, reset, schema clean | | 4 |
    database:{project} migration:{cwd} | empties a database
@orm @migrators | migrate:rollback, migrate:down, rollback, down, migration revert, undo, revert | --all -all | 4 |
    database:{project} migration:{cwd} | takes back all migrations
@orm @migrators | status, info, validate, history, version, list, migrate info | | 0 | | only looks
@orm @migrators | * | | migrate | database:{project} migration:{cwd} | changes the schema of a database
dropdb dropuser | * | | 4 | database:{1} | deletes a database or a user of one
createdb createuser initdb | * | | 2 | database:{1} | makes a database
pg_restore mongorestore mysqlimport | * | -c --clean --drop -C --create --delete | 4 | database:{-d} | replaces a
    database
pg_restore mongorestore mysqlimport | * | -l --list | 0 | | only looks
pg_restore mongorestore mysqlimport | * | | 3 | database:{-d} | writes into a database
pg_dump pg_dumpall mysqldump mongodump mongoexport pg_isready | * | | 1 | | writes out a database
pg_dropcluster pg_resetwal | * | | 4 | database:{1}/{2} | deletes a database, or what it needs to be sound
pg_lsclusters pg_controldata pg_config | * | | 0 | | only looks
pg_ctl | status, * status | | 0 | | only looks
pg_ctl | stop, restart, promote, kill, * stop, * restart, * promote | | service | service:postgresql | stops or promotes
    a database
pg_ctlcluster | * * stop, * * restart, * * promote | | service | service:postgresql | stops or promotes a database
pg_ctl pg_ctlcluster | * | | 2 | service:postgresql | starts a database
vault | kv put, kv patch, kv rollback, kv undelete | | 4 | vault:{1} | changes secrets
mysqladmin | drop, shutdown, kill, flush-hosts, flush-privileges, password | | 4 | database:{1} | drops, ends or
    reconfigures a database
mysqladmin | status, ping, version, processlist, variables, extended-status | | 0 | | only looks
"""


class Row(NamedTuple):
    """A row of ``ROWS``, made ready. ``words`` are the alternatives, each a tuple; None: any."""

    words: tuple[tuple[str, ...], ...] | None
    options: frozenset[str]
    without: frozenset[str]
    tier: int | str
    keys: tuple[tuple[str, Mode], ...]
    what: str


_MODES: Final = {"+": Mode.APPEND, "?": Mode.READ}


def _read_rows() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    lists: dict[str, str] = {}
    for line in ROWS.replace("\n    ", " ").split("\n"):
        if not line or line[0] == "#":
            continue
        if line[0] == "@" and "|" not in line:
            name, _, members = line.partition(" ")
            lists[name] = members
            continue
        programs, first, flags, tier, named, what = map(str.strip, re.split(r"\s\|(?=\s)", line))
        words = None
        alternatives = [one.strip() for one in first.split(",")]
        if "*" not in alternatives:
            words = tuple(tuple(one.split()) if one != '""' else () for one in alternatives)
        given = flags.split()
        row = Row(
            words,
            frozenset(one for one in given if one[0] != "!"),
            frozenset(one[1:] for one in given if one[0] == "!"),
            int(tier) if tier.isdecimal() else tier,
            tuple((one.lstrip("+?"), _MODES.get(one[0], Mode.WRITE)) for one in named.split()),
            what,
        )
        for program in " ".join(lists.get(one, one) for one in programs.split()).split():
            found.setdefault(program, []).append(row)
    return found


TABLE: Final = _read_rows()
_BEFORE: Final = frozenset(
    "-n --namespace --context --kubeconfig --cluster --profile --region --project -R --repo -H --host --config -c -f "
    "--file -p --project-name --env-file --project-directory -C --directory --cwd --prefix --chdir -w --workspace "
    "--filter -s".split()
)
_OPTION: Final = re.compile(r"\{(-[^}]+)\}")
_HOLE_SIGNS: Final = frozenset("{}$|")
_HOLE: Final = re.compile(r"\{([^}]+)\}")


_FOLDERS: Final = {
    **dict.fromkeys(("terraform", "tofu", "terragrunt"), ("-chdir",)),
    **dict.fromkeys(("make", "gmake", "ninja", "poetry"), ("-C", "--directory")),
    **dict.fromkeys(("npm", "pnpm"), ("--prefix", "-C", "--dir")),
    **dict.fromkeys(("yarn", "bun"), ("--cwd",)),
    **dict.fromkeys(("docker", "docker-compose", "podman", "podman-compose"), ("--project-directory",)),
    **dict.fromkeys(("hg", "jj"), ("-R", "--repository", "--cwd")),
    "uv": ("--directory", "--project"),
}
"""By which option a program is told in which folder to work."""


def apply(run: Run, program: str, argv: list[str]) -> bool:
    """Judges a command by the first row that fits; False where none does."""
    rows = TABLE.get(program)
    if rows is None:
        return False
    where = run.where
    if program in _FOLDERS and (folder := _folder(_FOLDERS[program], argv)):
        run.goes(folder)
    found = _judged(run, rows, program, argv)
    run.where = where
    return found


def _folder(names: tuple[str, ...], argv: list[str]) -> str:
    """Return what one of these options is given."""
    for at, word in enumerate(argv[1:32], 1):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(argv[at + 1 : at + 2])
    return ""


def _judged(run: Run, rows: list[Row], program: str, argv: list[str]) -> bool:
    if verbs.asks_for_help(argv):
        run.note(0, "only tells of itself")
        return True
    words, found = _split(argv)
    if program in _KUBECTL:
        words = _resources(_manifests(run, argv, words))
    for row in rows:
        size = _matches(row, words, argv)
        if size is None:
            continue
        if row.options and row.options.isdisjoint(found.flags):
            continue
        if row.without and not row.without.isdisjoint(found.flags | set(words)):
            continue
        tier = row.tier if isinstance(row.tier, int) else int(getattr(run.policy, row.tier))
        if tier and verbs.is_dry(argv):
            run.note(0, "only tells what it would do")
            return True
        run.note(tier, row.what)
        for template, mode in row.keys:
            for name in _OPTION.findall(template):
                if name not in found.values and name in argv[1:-1]:
                    found.values[name] = [argv[argv.index(name, 1) + 1]]
            filled = template.replace("{space}", _space(found)) if "{space}" in template else template
            for rest in _each(program, words, size):
                _key(run, tier, filled, mode if tier else Mode.READ, (words[:1], rest), found)
        return True
    return False


def _manifests(run: Run, argv: list[str], words: list[str]) -> list[str]:
    """Return the words with each manifest (``-f``, ``-k``) by the name all worktrees of its repository have for it."""
    folder = run.project()
    named = {argv[at + 1] for at, one in enumerate(argv[:-1]) if one in ("-f", "-k", "--filename", "--kustomize")}
    if not folder or not named:
        return words
    return [
        keys.path(keys.clean(one), folder) if one in named and "://" not in one and "$" not in one else one
        for one in words
        if one != "-"
    ]


_SHORT: Final[dict[str, str]] = {
    short: kind
    for kind, shorts in (
        ("pod", "po pods"),
        ("deployment", "deploy deployments deployment.apps deployments.apps"),
        ("service", "svc services"),
        ("configmap", "cm configmaps"),
        ("secret", "secrets"),
        ("namespace", "ns namespaces"),
        ("statefulset", "sts statefulsets statefulset.apps"),
        ("daemonset", "ds daemonsets daemonset.apps"),
        ("replicaset", "rs replicasets"),
        ("ingress", "ing ingresses"),
        ("job", "jobs job.batch"),
        ("cronjob", "cj cronjobs"),
        ("node", "no nodes"),
        ("persistentvolumeclaim", "pvc persistentvolumeclaims"),
        ("persistentvolume", "pv persistentvolumes"),
        ("serviceaccount", "sa serviceaccounts"),
        ("horizontalpodautoscaler", "hpa horizontalpodautoscalers"),
        ("networkpolicy", "netpol networkpolicies"),
        ("customresourcedefinition", "crd crds customresourcedefinitions"),
    )
    for short in shorts.split()
}
"""What kubectl takes for its kinds besides their names."""


def _space(found: options.Options) -> str:
    """Return the cluster and the namespace that options name, a slash behind each."""
    named = (found.value("--context"), found.value("-n", "--namespace"))
    return "".join(f"{one}/" for one in named if one and _HOLE_SIGNS.isdisjoint(one))


def _resources(words: list[str]) -> list[str]:
    """Return the words behind the verb with each kind by its one name: ``deploy/web`` is ``deployment/web``."""
    found = words[:1]
    for one in words[1:]:
        kind, slash, name = one.partition("/")
        found.append(_SHORT.get(kind.lower(), kind) + slash + name)
    return found


def _each(program: str, words: list[str], size: int) -> list[list[str]]:
    """Return what stands behind a row's words: once for each of the things that kubectl is told of at once.

    ``pod a b`` and ``pod/a svc/b`` are two; ``name=value`` is none.
    """
    rest = words[size:]
    if program not in _KUBECTL or len(rest) < 2 or words[0] not in _SEVERAL:
        return [rest]
    named = [one for one in rest if "=" not in one][:_MOST_NAMED]
    if named and "/" in named[0]:
        return [[one] for one in named]
    return [[named[0], one] for one in named[1:]] or [rest]


_KUBECTL: Final = frozenset(("kubectl", "oc", "k"))
_SEVERAL: Final = frozenset(("delete", "scale", "label", "annotate"))
_MOST_NAMED: Final = 16


def _split(argv: list[str]) -> tuple[list[str], options.Options]:
    """Return the words without options; before the first word options may have values."""
    at, kept = 1, []
    while at < len(argv) and argv[at][:1] == "-":
        size = 2 if argv[at] in _BEFORE and len(argv) > at + 2 else 1
        kept += argv[at : at + size]
        at += size
    if argv[at : at + 1] == ["compose"]:
        first, at = argv[at], at + 1
        while at < len(argv) and argv[at][:1] == "-":
            at += 2 if argv[at] in _BEFORE else 1
        argv, at = [first, *argv[at:]], 0
    found = options.read([*kept, *argv[at:]], _AFTER)
    if any("$(" in one for one in found.args):
        found.flags.add("$()")
    return options.read(argv[at:], _AFTER).args, found


_AFTER: Final = frozenset(
    "-n --namespace --context -R --repo --kubeconfig -p --project --org --app -a --name --file --env".split()
)


def _matches(row: Row, words: list[str], argv: list[str]) -> int | None:
    """Return how many words a row's first words take, None where they do not fit."""
    if row.words is None:
        return 0
    start = words[0] if words else ""
    for one in row.words:
        size = len(one)
        if not size:
            if not words and len(argv) == 1:
                return 0
            continue
        first = one[0]
        if first[0] == "-":
            if tuple(argv[1 : 1 + size]) == one:
                return 0
        elif (first in (start, "*") and len(words) >= size) and (
            size == 1 or all(part in ("*", word) for part, word in zip(one, words, strict=False))
        ):
            return size
    return None


def _place(run: Run, name: str) -> str:
    if name == "cwd":
        return "" if run.where.lost or run.where.here is None else run.where.here
    here = run.repository()
    return run.project() or "" if name == "project" else run.home(here) if here else ""


def _key(
    run: Run, tier: int, template: str, mode: Mode, words: tuple[list[str], list[str]], found: options.Options
) -> None:
    """Add the keys a template stands for; ``words`` are the first of all, and those after the row's."""
    first, rest = words
    entity, _, value = template.partition(":")
    if value == "{*}":
        for one in rest[:16]:
            run.keyed(tier, entity, one, mode)
        return
    facet = ""
    if "|" in value:
        value, _, facet = value.partition("|")
    missing = False

    def fill(match: re.Match[str]) -> str:
        nonlocal missing
        name = match.group(1)
        if name in ("cwd", "worktree", "project"):
            text = _place(run, name)
        elif name == "repo":
            here = run.repository()
            named = keys.repository(found.value("-R", "--repo")).lower()
            text = named or (run.common(run.home(here)) if here else "")
        elif name.isdecimal():
            place = int(name)
            text = "".join(first) if not place else rest[place - 1] if len(rest) >= place else ""
        else:
            text = found.value(name)
        if not text and not (name.isdecimal() and int(name) > 1):
            missing = True
        return text

    value = _HOLE.sub(fill, value)
    if missing or "$" in value:
        return
    if entity == "file":
        run.makes(value, "writes a file")
        return
    name = value.rstrip("/") + ("/" if facet and value[-1:] == "/" else "")
    if mode is Mode.APPEND and entity in ("pr", "issue"):
        run.repeats = True
    if entity == "repo":
        name = name.lower()
    if name:
        run.key(tier, f"{entity}:{run.on_machine(name)}" + (f"|{facet}" if facet else ""), mode)
