/* Put a certificate into the user's store of trusted ones, as `certutil -user -addstore Root FILE` does: trust.exe FILE */
#include <windows.h>
#include <stdio.h>
#include <wincrypt.h>

int main(int argc, char **argv) {
	static unsigned char content[65536];
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	size_t size = file ? fread(content, 1, sizeof content, file) : 0;
	HCERTSTORE store = CertOpenStore(CERT_STORE_PROV_SYSTEM_W, 0, 0, CERT_SYSTEM_STORE_CURRENT_USER, L"Root");
	BOOL added = store && CertAddEncodedCertificateToStore(store, X509_ASN_ENCODING, content, (DWORD)size,
	                                                       CERT_STORE_ADD_REPLACE_EXISTING, NULL);
	if (store) CertCloseStore(store, 0);
	return !added;
}
