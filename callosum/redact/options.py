"""Options of programs after which a secret stands without a name that says so: ``sshpass -p X``, ``redis-cli -a X``."""

from __future__ import annotations

from typing import Final

from callosum.redact.names import SECRET_NAME

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
    (rb"mc\s+(?:alias|config host)", rb"(?:set|add)\s+[^\s]+\s+[^\s]+\s+[^\s]+\s"),
)
"""Programs, and the options of theirs after which a secret stands."""
