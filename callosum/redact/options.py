"""Options of programs after which a secret stands without a name that says so: ``sshpass -p X``, ``redis-cli -a X``."""

from __future__ import annotations

from typing import Final

# ruff: noqa: E501, ISC004  (a row is one pattern)
from callosum.redact.names import SECRET_NAME

ANY_PROGRAM: Final = rb"[a-z0-9_-]+"
OPTIONS: Final = (
    (rb"curl|wget|https?|xh|hurl", rb"(?:-u|-U|-a|--user|--proxy-user|--auth)[ =]?\\?[\"']?[^\s:\"'\\]+:"),
    (rb"mysql(?:dump|admin|import|check|show)?|mariadb(?:-dump|-admin)?|7z[ar]?", rb"-p"),
    (
        rb"(?:docker|podman|nerdctl|buildah|skopeo|oras|helm registry|crane auth|az|oc|cf|argocd)\s+(?:acr\s+)?login",
        rb"-p[ =]?",
    ),
    (
        rb"sshpass|twine upload|mongo(?:sh|dump|restore|import|export)?|cqlsh|rabbitmqadmin|rdesktop|hdbsql|arangosh",
        rb"-p[ =]?",
    ),
    (rb"redis-(?:cli|benchmark)|keydb-cli|valkey-cli", rb"(?:-a|--pass)[ =]?"),
    (rb"unzip|zip|sqlcmd|bcp|ipmitool|mosquitto_(?:pub|sub)|ssh-keygen|isql", rb"-P[ =]?"),
    (rb"ssh-keygen", rb"-N[ =]?"),
    (rb"ldap(?:search|modify|add|delete|passwd|whoami)|security|pg_basebackup|bw", rb"-w[ =]?"),
    (rb"smbclient|rpcclient|smbmap|net", rb"(?:-U|--user)[ =]?\\?[\"']?[^\s%\"'\\]+%"),
    (rb"lftp|ncftp(?:put|get)?", rb"-u[ =]?\\?[\"']?[^\s,\"'\\]+,"),
    (rb"keytool|jarsigner", rb"-(?:store|key|srcstore|deststore|new)pass(?:wd)?[ =]?"),
    (rb"openssl|gpg", rb"-(?:pass|passin|passout|k)\s+(?:pass:)?"),
    (rb"xfreerdp|wfreerdp|mstsc", rb"/p:"),
    (rb"htpasswd", rb"-[a-zA-Z]*b[a-zA-Z]*\s+[^\s]+\s+[^\s]+\s"),
    (rb"wpa_passphrase", rb"[^\s-][^\s]*\s"),
    (rb"vault", rb"login\s+(?:-method=token\s+)?(?:token=)?"),
    (rb"sqlplus|rman", rb"[A-Za-z0-9_]+/"),
    (
        rb"aws|gcloud|npm|yarn|pnpm|git|gh|heroku|vercel|netlify",
        rb"(?:set|set-secret|config:set|secret set)\s+" + SECRET_NAME + rb"\s+",
    ),
    (rb"net\s+user", rb"[A-Za-z0-9_.-]+\s"),
    # Users and their passwords in one argument
    (
        rb"skopeo|buildah|podman|curl|etcdctl|hey|ab|sqlmap|java|jenkins-cli|nikto|crane",
        rb"(?:--(?:src-|dest-)?creds|--user|-auth|-a|-A|-id|--auth-cred)[ =]\\?[\"']?[^\s:\"'\\]+:",
    ),
    (rb"(?:python[0-9.]* )?[a-z]+(?:exec|dump|client|query)(?:\.py)?", rb"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+:"),
    # Options of one letter or of a name that says nothing
    (rb"rar|unrar", rb"-h?p"),
    (rb"7z[ar]?", rb"-p"),
    (rb"useradd|usermod", rb"-p[ =]?"),
    (
        rb"psexec(?:64)?(?:\.exe)?|plink|pscp|psftp|steghide|evil-winrm|crackmapexec|netexec|nxc|hydra|medusa|veracrypt|"
        rb"cypher-shell|airflow|add-user\.sh|xcrun|security|doveadm pw|saslpasswd2|influx|mosquitto_(?:pub|sub)|pass-cli",
        rb"(?:-p|-pw|-P)[ =]",
    ),
    (rb"az (?:sql|postgres|mysql|ad|vm|webapp)[a-z -]*", rb"-p[ =]"),
    (rb"p4|snmp(?:walk|get|set|bulkwalk)", rb"-P[ =]"),
    (rb"snmp(?:walk|get|set|bulkwalk|getnext)", rb"-[cAX][ =]?"),
    (rb"slappasswd|ldappasswd", rb"-[sa][ =]?"),
    (rb"kadmin(?:\.local)?|dsconf|dsidm", rb"-(?:w|pw)[ =]?"),
    (rb"addprinc|cpw", rb"-pw[ =]?"),
    (rb"vmrun", rb"-[gh]p[ =]?"),
    (rb"pdftk", rb"(?:input_pw|user_pw|owner_pw)\s+"),
    (rb"pdf[a-z]+", rb"-[uo]pw[ =]"),
    (rb"qpdf", rb"--encrypt\s+"),
    (rb"swaks", rb"-ap[ =]?"),
    (rb"sendemail", rb"-xp[ =]?"),
    (rb"signtool|certutil|wmic|cmdkey|schtasks|net use", rb"(?:[/-](?:p|rp|pass|password)[ :])"),
    (rb"apksigner", rb"--(?:ks|key)-pass[ =](?:pass:)?"),
    (rb"dotnet nuget push|nuget push|hatch publish|openssl enc|linode-cli|doctl|rancher login", rb"-(?:k|a|t)[ =]?"),
    (rb"curl|http|https|xh", rb"(?:-b|--cookie)[ =]\\?[\"']?[A-Za-z0-9_.-]+="),
    (ANY_PROGRAM, rb"-D[A-Za-z0-9_.-]*(?:login|token|password|secret|passphrase)="),
    # Commands whose argument is the secret
    (rb"nuget", rb"set[Aa]pi[Kk]ey\s+"),
    (
        rb"snyk|ngrok|cargo|wandb|vault operator|conda|caddy|bw|openssl|rclone|redis-cli|travis|mysqladmin|kaggle",
        rb"(?:"
        rb"auth|authtoken|add-authtoken|login|unseal|token set|hash-password --plaintext|unlock|passwd|obscure|AUTH|encrypt|"
        rb"requirepass|password)\s+",
    ),
    (rb"bw|cf", rb"(?:login|auth)\s+[^\s-][^\s]*\s+"),
    (
        rb"rabbitmqctl|ejabberdctl|prosodyctl|samba-tool|emqx_ctl|mosquitto_passwd|drush|poetry|htpasswd|svnserve",
        rb"(?:"
        rb"add_user|change_password|authenticate_user|register|user create|user:password|users add|http-basic[A-Za-z0-9_.-]*|"
        rb"-b)\s+(?:[^\s-][^\s]*\s+){1,2}",
    ),
    (rb"poetry config", rb"pypi-token\.[A-Za-z0-9_-]+\s+"),
    (rb"radtest", rb"[^\s]+\s+"),
    (rb"(?:grafana-cli|grafana cli)", rb"reset-admin-password\s+"),
    (rb"neo4j-admin", rb"set-initial-password\s+"),
    (
        rb"pulumi|netbird|tailscale|zerotier-cli|consul|nomad",
        rb"(?:--secret\s+[A-Za-z0-9:_-]+\s+|--setup-key[ =]|--auth-?key[ =])",
    ),
    (
        rb"(?:az keyvault secret|aws ssm|aws secretsmanager|llm keys|gh secret|doppler|vault kv|wrangler|gcloud)",
        rb"(?:--value[ =]|--body[ =]|-b\s+|value=)",
    ),
    (rb"db2", rb"using\s+"),
    (rb"isql|impdp|expdp|exp|imp|sqlldr|tnsping|sqlplus", rb"[A-Za-z0-9_]+(?:/|\s+(?-i:[^\s/-]))"),
    (rb"ConvertTo-SecureString", rb"(?:-String\s+)?"),
    (rb"sudo|docker|gh|chpasswd|base64|cryptsetup|passwd|kinit", rb"[^|\n]{0,60}<<<\s*"),
    (rb"mc\s+(?:alias|config host)", rb"(?:set|add)\s+[^\s]+\s+[^\s]+\s+[^\s]+\s"),
)
"""Programs, and the options of theirs after which a secret stands."""
