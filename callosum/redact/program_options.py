"""Programs that take a secret without a name that says so: ``sshpass -p X``, ``croc X``, ``echo X | chpasswd``."""

from __future__ import annotations

from typing import Final

# ruff: noqa: E501, ISC004  (a row is one pattern)
from callosum.redact.secret_names import SECRET_NAME

ANY_PROGRAM: Final = rb"[a-z0-9_-]+"
_WORD: Final = rb"[^\s\[<>|;&-][^\s<>|;&]*"
"""An argument that is not an option and not a secret already hidden."""
_FLAGS: Final = rb"(?:-[^\s]*\s+(?:[0-9]{1,3}[a-z]?\s+)?)*"
"""Options, each possibly with a number."""
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
    (rb"smbclient|rpcclient|smbmap|smbget|smbcacls|smbtree|winexe|net", rb"(?:-U|--user)[ =]?\\?[\"']?[^\s%\"'\\]+%"),
    (rb"lftp|ncftp(?:put|get)?", rb"-u[ =]?\\?[\"']?[^\s,\"'\\]+,"),
    (rb"keytool|jarsigner", rb"-(?:store|key|srcstore|deststore|new)pass(?:wd)?[ =]?"),
    (rb"openssl|gpg", rb"-(?:pass|passin|passout|k)\s+(?:pass:)?"),
    (rb"openssl", rb"-K\s+"),
    (rb"[a-z-]*freerdp3?|mstsc", rb"/p:"),
    (rb"vault", rb"login\s+(?:-method=token\s+)?(?:token=)?"),
    # Users and their passwords in one argument
    (
        rb"skopeo|buildah|podman|curl|etcdctl|hey|ab|sqlmap|java|jenkins-cli|nikto|crane",
        rb"(?:--(?:src-|dest-)?creds|--user|-auth|-a|-A|-id|--auth-cred)[ =]\\?[\"']?[^\s:\"'\\]+:",
    ),
    (rb"(?:python[0-9.]* )?[a-z]+(?:exec|dump|client|query)(?:\.py)?", rb"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+:"),
    (
        rb"impacket-[A-Za-z_-]+|(?:(?:Get|get)(?:UserSPNs|NPUsers|ADUsers|ADComputers|LAPSPassword|TGT|ST|Pac)|addcomputer|rbcd|"
        rb"dacledit|owneredit|changepasswd|secretsdump|(?:ps|smb|wmi|at|dcom)exec|(?:mssql|smb)client|lookupsid|samrdump|rpcdump|"
        rb"findDelegation|goldenPac|raiseChild|netview|ntlmrelayx|ticketer|dpapi|exchanger|rdp_check)\.py",
        rb"\\?[\"']?(?:[A-Za-z0-9._-]+/)?[A-Za-z0-9._$-]+:",
    ),
    # Options of one letter or of a name that says nothing
    (rb"rar|unrar", rb"-h?p"),
    (rb"7z[ar]?", rb"-p"),
    (rb"useradd|usermod", rb"-p[ =]?"),
    (
        rb"psexec(?:64)?(?:\.exe)?|steghide|evil-winrm|crackmapexec|netexec|nxc|hydra|medusa|veracrypt|cypher-shell|airflow|"
        rb"add-user\.sh|xcrun|doveadm pw|influx|pass-cli|mutool|unar|lsar|aescrypt|certipy|ldapdomaindump|bloodhound-python",
        rb"-p[ =]",
    ),
    (rb"plink|pscp|psftp|putty|kitty|klink", rb"-pw[ =]"),
    (rb"security", rb"-[kpPw][ =]"),
    (rb"az (?:sql|postgres|mysql|ad|vm|webapp)[a-z -]*", rb"-p[ =]"),
    (rb"p4", rb"-P[ =]"),
    (rb"snmp[a-z]+", rb"-[cAX][ =]?"),
    (rb"slappasswd|ldappasswd", rb"-[sa][ =]?"),
    (rb"kadmin(?:\.local)?|dsconf|dsidm", rb"-(?:w|pw)[ =]?"),
    (rb"odoo(?:-bin)?|ipa-client-install|ipa-replica-install", rb"-w[ =]"),
    (rb"cc(?:rypt|encrypt|decrypt|at|guess)", rb"-K[ =]"),
    (rb"dislocker[a-z-]*", rb"-[up]"),
    (rb"(?:pkcs1[15]|p11|softhsm2|piv|yubico-piv)-?(?:tool|init|util)|ykman", rb"--(?:[a-z]+-)*(?:pin|puk)[ =]"),
    (rb"ykman", rb"-[Pmnp][ =]"),
    (rb"curl", rb"(?:-E|--(?:proxy-)?cert)[ =]?\\?[\"']?[^\s:\"'\\]+:"),
    (rb"k?dig|k?nsupdate|delv", rb"-y[ =]?\\?[\"']?(?:hmac-[a-z0-9-]+:)?[^\s:\"'\\]+:"),
    (rb"netdom", rb"/(?i:pd|po|passwordd|passwordo):"),
    (rb"iwconfig|iw", rb"key\s+(?:s:|(?:d:)?[0-3]:)"),
    (rb"netsh\s+wlan\s+(?:set|add)", rb"key(?:Material)?="),
    (rb"croc|wormhole", rb"--code[ =]"),
    (rb"eyaml", rb"-s[ =]"),
    (rb"addprinc|cpw", rb"-pw[ =]?"),
    (rb"vmrun", rb"-[gh]p[ =]?"),
    (rb"pdftk", rb"(?:input_pw|user_pw|owner_pw)\s+"),
    (rb"pdf[a-z]+", rb"-[uo]pw[ =]"),
    (rb"qpdf", rb"--encrypt\s+"),
    (rb"qpdf", rb"--encrypt\s+[^\s]+\s+"),
    (rb"swaks", rb"-ap[ =]?"),
    (rb"sendemail", rb"-xp[ =]?"),
    (rb"signtool|certutil|wmic|cmdkey|schtasks|net use", rb"(?:[/-](?:p|rp|pass|password)[ :])"),
    (rb"apksigner", rb"--(?:ks|key)-pass[ =](?:pass:)?"),
    (rb"dotnet nuget push|nuget push|hatch publish|linode-cli|doctl|rancher login", rb"-(?:k|a|t)[ =]"),
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
    (
        rb"rabbitmqctl|ejabberdctl|prosodyctl|samba-tool|emqx_ctl|mosquitto_passwd|drush|poetry|htpasswd|svnserve",
        rb"(?:"
        rb"add_user|change_password|authenticate_user|register|user create|user setpassword|user:password|users add|"
        rb"http-basic[A-Za-z0-9_.-]*|-b)\s+(?:" + _WORD + rb"\s+){1,2}",
    ),
    (rb"poetry config", rb"pypi-token\.[A-Za-z0-9_-]+\s+"),
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
    (rb"ConvertTo-SecureString", rb"(?:-String\s+)?"),
)
"""Programs, and their options that are followed by a secret."""

SETTERS: Final = (
    rb"aws|gcloud|npm|yarn|pnpm|git|gh|heroku|vercel|netlify",
    rb"(?:set|set-secret|config:set|secret set)\s+" + SECRET_NAME + rb"\s+",
)
"""Programs whose settings may have a secret's name, and what precedes the secret."""

ARGUMENTS: Final = (
    (rb"htpasswd", rb"(?:-[^\s]+\s+)*-[a-zA-Z]*b[a-zA-Z]*\s+(?:-[^\s]+\s+)*(?:" + _WORD + rb"\s+){1,2}"),
    (rb"wpa_passphrase", rb"(?:\"[^\"\n]+\"|'[^'\n]+'|" + _WORD + rb")\s+"),
    (rb"(?:sqlplus|rman|impdp|expdp|exp|imp|sqlldr)", rb"(?:-[^\s]+\s+)*(?:userid=)?\\?[\"']?[A-Za-z0-9_]+/"),
    (rb"isql", rb"(?:-[^\s]+\s+)*" + _WORD + rb"\s+" + _WORD + rb"\s+"),
    (rb"(?i:net(?:\.exe)?\s+user)", rb"(?:\\?\"[^\"\n]+\"|" + _WORD + rb")\s+"),
    (rb"(?i:net(?:\.exe)?\s+use)", rb"(?:(?:[A-Za-z]:|\*)\s+)?\\{2,4}[^\s]+\s+(?:/(?i:user):[^\s]+\s+)?"),
    (rb"radtest", rb"(?:-[^\s]+\s+[^\s]+\s+)*" + _WORD + rb"\s+"),
    (rb"radtest", rb"(?:-[^\s]+\s+[^\s]+\s+)*(?:[^\s]+\s+){3}[0-9]+\s+"),
    (rb"radclient", rb"(?:-[^\s]+\s+(?:[0-9]+\s+)?)*" + _WORD + rb"\s+(?:auth|acct|status|coa|disconnect|auto)\s+"),
    (rb"mc\s+(?:alias|config host)", rb"(?:set|add)\s+" + _WORD + rb"\s+" + _WORD + rb"\s+[^\s]+\s+"),
    (rb"bw|cf", rb"(?:login|auth)\s+" + _WORD + rb"\s+"),
    (rb"oathtool", _FLAGS),
    (rb"ykman\s+oath\s+accounts\s+add", _FLAGS + _WORD + rb"\s+"),
    (rb"create_ap", _FLAGS + rb"(?:" + _WORD + rb"\s+){2,4}"),
    (rb"croc", _FLAGS),
    (rb"wormhole\s+(?:receive|recv|rx)", _FLAGS),
    (rb"openssl\s+passwd", rb"(?:-salt\s+[^\s]+\s+|-[a-z0-9]+\s+)*"),
    (
        rb"mkpasswd",
        rb"(?:-{1,2}[A-Za-z0-9-]+(?:=[^\s]+)?\s+(?:(?:sha|md5|des|gost|yescrypt|bcrypt|scrypt|[0-9])[^\s]*\s+)?)*",
    ),
    (rb"ipmitool", rb"(?:[^\s|;&]+\s+){0,12}?user\s+set\s+password\s+[0-9]+\s+"),
    (rb"cloudflared\s+service\s+install", rb""),
    (rb"adb", rb"(?:-[sdet]\s+(?:[^\s-]+\s+)?)*(?:pair\s+[^\s]+:[0-9]+|shell\s+locksettings\s+set-[a-z]+)\s+"),
    (rb"virsh\s+secret-set-value", _WORD + rb"\s+"),
    (rb"ansible-vault\s+encrypt_string", rb"(?:-[^\s]+\s+)*"),
    (
        rb"dotnet\s+user-secrets\s+set|sst\s+secret\s+set|bws\s+secret\s+create|credstash\s+put|doppler\s+secrets\s+set|"
        rb"eas\s+secret:create",
        rb"(?:\\?\"[^\"\n]+\"|" + _WORD + rb")\s+",
    ),
    (rb"chamber\s+write", _WORD + rb"\s+" + _WORD + rb"\s+"),
)
"""Programs, and what precedes the argument that is the secret."""

PAIRS: Final = (
    rb"vault\s+kv\s+(?:put|patch)|(?:kubectl|oc)\s+create\s+secret|"
    rb"(?:fly|flyctl|supabase|infisical|phase|doppler)\s+secrets?\s+(?:set|import)"
)
"""Commands that store secrets: all values in arguments ``NAME=VALUE`` are hidden, whatever their names."""

READERS: Final = (
    rb"(?:chpasswd|(?:smb|yp|mosquitto_|vnc|mk)?passwd|cryptsetup|kinit|argon2|ecryptfs-[a-z-]+|saslpasswd2|wpa_passphrase|"
    rb"openconnect|fscrypt|keepassxc-cli|lpass|gnome-keyring-daemon|secret-tool store|systemd-creds encrypt)\b|"
    rb"sudo\s+(?:-[^\s]+\s+)*-[a-zA-Z]*S|zfs (?:load-key|create)|(?:docker|podman) secret create|"
    rb"pass insert|pass add|kubectl create secret|wg (?:pubkey|set)|(?:bw|op) (?:login|unlock|signin)|rclone obscure|"
    rb"wrangler (?:pages )?secret|(?:gh|glab) secret set|vercel env add|vault login|"
    rb"(?:gcloud|firebase) (?:secrets|functions:secrets)|caddy hash-password|"
    rb"[a-z][a-z0-9_-]*\s[^\n|;&]*?(?:--password-stdin|--with-token|--passphrase-fd[ =]0|--stdin-pass|--passwd-on-stdin|"
    rb"-pass(?:in|out)? stdin|--key-file[ =]-|--stdin\b)"
)
"""Commands that read a secret from standard input: ``echo X | chpasswd``, ``kinit <<< X``."""
