"""Kinds of harmless strings that resemble secrets: hashes, public keys, identifiers, and words for secrets without one.

``bench.redaction`` makes four strings of each of the 93, anew for each seed. A third of the kinds (``LAID_ASIDE``) was
set apart before anything was mended for the others; whoever mends the redactor looks at the others alone.
"""

from __future__ import annotations

from typing import Final

KINDS: Final = (
    # Hashes
    '"integrity": "sha512-{b86}==",', "golang.org/x/text v0.14.0 h1:{b43}=",
    "golang.org/x/text v0.14.0/go.mod h1:{b43}=",
    '<script src="/a.js" integrity="sha384-{b64}" crossorigin="anonymous"></script>',
    "requests==2.31.0 --hash=sha256:{h64}", 'checksum = "{h64}"', "image: nginx@sha256:{h64}", "commit {h40}",
    "/nix/store/{a32}-hello-2.12.1", 'hash = "sha256-{b43}=";', "{h64}  release-1.4.tar.gz", "MD5 (a.iso) = {h32}",
    'ETag: "{h32}"', "git diff {h7}..{h7} -- src/key.c", "C:Q1{b27}=", "SHA256:{b43} ana@host (ED25519)",
    "2048 SHA256:{b43} no comment (RSA)", "The key's fingerprint is SHA256:{b43}.", "Content-MD5: {b22}==",
    "Digest: SHA-256={b43}=", "script-src 'sha256-{b43}='", "sha512sum: {h128}", "yarn.lock: checksum: 10c0/{h128}",
    "integrity sha1-{b27}=", "Docker-Content-Digest: sha256:{h64}", "pubspec.lock sha256: {h64}",
    "narHash: sha256-{b43}=", "blob {h40} 1234", "Subresource hash sha256-{b43}= matches",
    "git show {h40}:docs/tokens.md",
    # Public keys
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} ana@host", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b200} ana@host",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBB{b86}= ana",
    "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43}", "recipient: age1{a58}",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{b64}\n{b24}==\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIID{b60}\n{b64}\n{b62}==\n-----END CERTIFICATE-----", "PublicKey = {b43}=",
    "wg set wg0 peer {b43}= allowed-ips 10.0.0.2/32",
    "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQ{b170}IDAQAB",
    '{"kty": "EC", "crv": "P-256", "x": "{w43}", "y": "{w43}"}', '"publicKey": "{b43}="',
    "minisign public key RW{b54}", "untrusted comment: signature\nRW{b98}=", "_443._tcp.x.org. IN TLSA 3 1 1 {h64}",
    "public_key_pins: pin-sha256={b43}=", "VAPID public key: B{w86}",
    # Identifiers
    "https://docs.google.com/document/d/1{w43}/edit", "https://drive.google.com/file/d/1{w32}/view?usp=sharing",
    "spreadsheetId: 1{w43}", "Message-ID: <{A32}@mail.example.com>", "In-Reply-To: <CA{w48}@mail.gmail.com>",
    "https://www.figma.com/file/{A22}/Design-tokens", "https://www.youtube.com/watch?v={w11}&list=PL{w32}",
    "https://www.notion.so/Tokens-and-secrets-{h32}", "01{U24}", "request_id: req_{A24}", "trace-id: {h32}-{h16}-1",
    "traceparent: 00-{h32}-{h16}-01", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-{A6}",
    "ami-0{h16} in subnet-0{h16}", "0x{h40} is the contract", "txid {h64}", "bc1q{a38}", "ipfs://Qm{A44}",
    "ipfs://bafybei{a52}", "https://cdn.x.org/assets/index-{w8}.js", "main.{h20}.chunk.js",
    "https://open.spotify.com/track/{A22}", "calendar event {a26}@google.com", "messageId: AAMkAG{b110}=",
    "spanner session projects/p/instances/i/databases/d/sessions/{w60}", "file_key={A22}&node-id=12-34",
    "Cf-Ray: {h16}-FRA",
    # Words for secrets, without one
    "auth: required", "credentials: include", "pin: bottom", "cookie: consent accepted", "JWT_ALG=RS256",
    "const token = await getToken()", "password = getpass.getpass('Password: ')",
    "secret = secrets.token_urlsafe({d2})", "token: ${{ secrets.DEPLOY_TOKEN }}",
    "password: '{{ vault_db_password }}'", "Authorization: Bearer $API_TOKEN", "Authorization: Bearer <your-token>",
    "if (password !== passwordConfirmation) throw new Error()", "auth required pam_unix.so nullok",
    "PasswordAuthentication no", "passwd: files systemd",
    "session = requests.Session(); session.auth = TokenAuth(user)",
    'input type="password" autocomplete="current-password" name="password"',
    "kubectl create secret generic db --from-file=password=./pw.txt",
)  # fmt: skip
LAID_ASIDE: Final = KINDS[::3]
