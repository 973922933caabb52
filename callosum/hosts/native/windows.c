/* The hook client of Callosum for Windows, where hooks ask a server for several machines. `callosum-hook HOST` asks
 * about a hook event on standard input. `callosum-hook HOST report` delivers an event whose answer nobody waits for.
 * `callosum-hook HOST here` lets Python inspect a file of this machine. `callosum-hook token FILE` exits with 0 if the
 * file contains a token that only the user can read, as the other forms require.
 *
 *     payload ──> one HTTP request over WinHTTP (TLS, the system's certificates) ──┬── a clean answer: printed, exit code 0
 *                                                                                  └── anything else: offline.h decides
 *
 * Every name comes from the file `<its own path>.conf`, which `callosum install` writes
 * (callosum/hosts/native/windows.py). Every wait ends: asking after `milliseconds` (a report: `patience`), everything
 * together after `limit` seconds.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <aclapi.h>
#include <sddl.h>
#include <winhttp.h>
#include "offline.h"

static const size_t LONGEST_PAYLOAD = 256u << 20, LONGEST_ANSWER = 64u << 20, LONGEST_FILE = 8u << 20, LONGEST_TOKEN = 10000;
enum { LONGEST_PATH = 4096, USUAL_LIMIT = 18 };

struct asking { /* of the asking thread; the waiting thread reads it only after it has ended */
	const struct text *lines, *payload;
	DWORD milliseconds;
	struct text received;
	int clean;
};

/* Exit code of the process if its time runs out. Until the event is known, it may be a tool call. */
static volatile LONG late_code = 2;

static void end(int code) { TerminateProcess(GetCurrentProcess(), (UINT)code); }

/* --- Files ------------------------------------------------------------------------------------------------------ */

static int write_all(DWORD to, const char *data, size_t size) {
	HANDLE file = GetStdHandle(to);
	while (size) {
		DWORD count = 0;
		if (!WriteFile(file, data, size < 65536 ? (DWORD)size : 65536, &count, NULL) || !count) return 0;
		data += count, size -= count;
	}
	return 1;
}

/* Read a file to its end. Returns 0 if it cannot be read completely, or is longer than `most`. */
static int read_all(HANDLE file, struct text *text, size_t most) {
	for (;;) {
		DWORD count = 0;
		if (!make_room(text, 65536)) return 0;
		if (!ReadFile(file, text->data + text->size, 65536, &count, NULL) && GetLastError() != ERROR_BROKEN_PIPE) return 0;
		text->size += count, text->data[text->size] = 0;
		if (text->size > most) return 0;
		if (!count) return 1;
	}
}

static HANDLE open_file(const wchar_t *path, DWORD access, DWORD how) {
	DWORD others = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
	return CreateFileW(path, access, others, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
}

static int wide(const char *text, wchar_t *into, int room) {
	return text && MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, into, room) > 0;
}

static int read_named(const char *name, struct text *text) {
	wchar_t path[LONGEST_PATH];
	HANDLE file = wide(name, path, LONGEST_PATH) ? open_file(path, GENERIC_READ, OPEN_EXISTING) : INVALID_HANDLE_VALUE;
	if (file == INVALID_HANDLE_VALUE) return 0;
	int whole = GetFileType(file) == FILE_TYPE_DISK && read_all(file, text, LONGEST_FILE);
	CloseHandle(file);
	return whole;
}

static int64_t number_of(const struct text *lines, const char *key) {
	const char *value = value_of(lines, key, NULL);
	int64_t found = 0;
	return value && number(value, 1000000, &found) ? found : 0;
}

/* --- The token -------------------------------------------------------------------------------------------------- */

/* Return whether it is the user's own identity, or one that can read any file: the system or the administrators. */
static int may_read(PSID who, PSID user) {
	static const wchar_t *const known[] = {L"S-1-5-18", L"S-1-5-32-544", L"S-1-3-4"};
	wchar_t *name = NULL;
	int may = EqualSid(who, user) != 0;
	if (!may && ConvertSidToStringSidW(who, &name)) {
		for (size_t at = 0; at < sizeof known / sizeof *known; at++) may |= !wcscmp(name, known[at]);
		LocalFree(name);
	}
	return may;
}

/* Return whether the access list of an open file keeps everybody else from reading it or changing the list. */
static int is_private(HANDLE file) {
	unsigned char user[512];
	DWORD size = 0;
	HANDLE token = NULL;
	PACL list = NULL;
	PSID owner = NULL;
	PSECURITY_DESCRIPTOR descriptor = NULL;
	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return 0;
	BOOL known = GetTokenInformation(token, TokenUser, user, sizeof user, &size);
	CloseHandle(token);
	if (!known || GetSecurityInfo(file, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL,
	                              &list, NULL, &descriptor))
		return 0;
	PSID self = ((TOKEN_USER *)user)->User.Sid;
	const DWORD reads = FILE_READ_DATA | GENERIC_READ | GENERIC_ALL | WRITE_DAC | WRITE_OWNER;
	int private = list != NULL && owner != NULL && may_read(owner, self);
	for (DWORD at = 0; private && at < list->AceCount; at++) {
		ACE_HEADER *entry = NULL;
		if (!GetAce(list, at, (void **)&entry)) private = 0;
		else if (entry->AceFlags & INHERIT_ONLY_ACE || entry->AceType == ACCESS_DENIED_ACE_TYPE) continue;
		else if (entry->AceType != ACCESS_ALLOWED_ACE_TYPE) private = 0;
		else {
			ACCESS_ALLOWED_ACE *allowed = (ACCESS_ALLOWED_ACE *)entry;
			private = !(allowed->Mask & reads) || may_read(&allowed->SidStart, self);
		}
	}
	LocalFree(descriptor);
	return private;
}

/* Read the token in the file's first line. Returns why it cannot be used, NULL if it can. */
static const char *read_token(const wchar_t *path, struct text *token) {
	HANDLE file = open_file(path, GENERIC_READ | READ_CONTROL, OPEN_EXISTING);
	if (file == INVALID_HANDLE_VALUE) return "it cannot be opened";
	int private = is_private(file), whole = read_all(file, token, LONGEST_TOKEN);
	CloseHandle(file);
	if (!private) return "others can read it: remove them from its access list (icacls FILE /inheritance:r /grant:r \"%USERNAME%:R\")";
	if (!whole) return "it cannot be read";
	size_t length = strcspn(token->data, "\r\n");
	token->data[token->size = length] = 0;
	for (size_t at = 0; at < length; at++)
		if (token->data[at] <= ' ' || token->data[at] > '~') length = 0;
	return length ? NULL : "it has no token in its first line";
}

/* --- Hung servers ----------------------------------------------------------------------------------------------- */

static int is_hung(const struct text *lines) {
	struct text said = {0};
	int64_t until = 0, left = 0;
	if (read_named(value_of(lines, "hung", NULL), &said) && number(said.data, INT64_MAX / 2, &until))
		left = until - (int64_t)(GetTickCount64() / 1000);
	free(said.data);
	return left > 0 && left <= number_of(lines, "hung-seconds");
}

/* Note until when the server is not asked. With `answered`, remove such a note. */
static void note(const struct text *lines, int answered) {
	wchar_t path[LONGEST_PATH];
	char until[32];
	DWORD count;
	if (!wide(value_of(lines, "hung", NULL), path, LONGEST_PATH)) return;
	if (answered) {
		if (GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES) DeleteFileW(path);
		return;
	}
	HANDLE file = open_file(path, GENERIC_WRITE, CREATE_ALWAYS);
	if (file == INVALID_HANDLE_VALUE) return;
	int size = snprintf(until, sizeof until, "%lld", (long long)(GetTickCount64() / 1000) + number_of(lines, "hung-seconds"));
	WriteFile(file, until, (DWORD)size, &count, NULL);
	CloseHandle(file);
}

/* --- Asking ----------------------------------------------------------------------------------------------------- */

static int read_answer(HINTERNET request, struct text *received) {
	for (;;) {
		DWORD count = 0;
		if (!make_room(received, 65536) || !WinHttpReadData(request, received->data + received->size, 65536, &count)) return 0;
		received->size += count, received->data[received->size] = 0;
		if (received->size > LONGEST_ANSWER) return 0;
		if (!count) break;
	}
	while (received->size && strchr(" \t\r\n", received->data[received->size - 1]) && received->data[received->size - 1])
		received->data[--received->size] = 0;
	return is_object(received->data, received->size) && is_utf8(received->data, received->size);
}

/* Ask the server. Proxies, redirects, cookies and the user's own login are not used: the token is for the server only.
 */
static DWORD WINAPI ask(void *given) {
	struct asking *asking = given;
	wchar_t host[512], target[LONGEST_PATH], path[LONGEST_PATH], headers[LONGEST_PATH * 3 + 256];
	struct text token = {0}, head = {0};
	static const char kind[] = "Content-Type: application/json\r\nAuthorization: Bearer ";
	HINTERNET session = NULL, server = NULL, request = NULL;
	int secure = number_of(asking->lines, "secure") == 1, waits = (int)asking->milliseconds;
	DWORD disabled = WINHTTP_DISABLE_REDIRECTS | WINHTTP_DISABLE_COOKIES | WINHTTP_DISABLE_AUTHENTICATION, status = 0;
	DWORD size = sizeof status, newest = WINHTTP_FLAG_SECURE_PROTOCOL_TLS1_2 | 0x2000 /* TLS 1.3 */;
	if (wide(value_of(asking->lines, "host", NULL), host, 512) && wide(value_of(asking->lines, "target", NULL), target, LONGEST_PATH) &&
	    wide(value_of(asking->lines, "token", NULL), path, LONGEST_PATH) && !read_token(path, &token) &&
	    append(&head, kind, sizeof kind - 1) && append(&head, token.data, token.size) && append(&head, "\r\n", 2) &&
	    wide(head.data, headers, sizeof headers / sizeof *headers) &&
	    (session = WinHttpOpen(L"callosum-hook", WINHTTP_ACCESS_TYPE_NO_PROXY, NULL, NULL, 0)) &&
	    WinHttpSetTimeouts(session, waits, waits, waits, waits)) {
		if (!WinHttpSetOption(session, WINHTTP_OPTION_SECURE_PROTOCOLS, &newest, sizeof newest)) {
			newest = WINHTTP_FLAG_SECURE_PROTOCOL_TLS1_2;
			WinHttpSetOption(session, WINHTTP_OPTION_SECURE_PROTOCOLS, &newest, sizeof newest);
		}
		server = WinHttpConnect(session, host, (INTERNET_PORT)number_of(asking->lines, "port"), 0);
		request = server ? WinHttpOpenRequest(server, L"POST", target, NULL, NULL, NULL, secure ? WINHTTP_FLAG_SECURE : 0) : NULL;
		asking->clean = request && WinHttpSetOption(request, WINHTTP_OPTION_DISABLE_FEATURE, &disabled, sizeof disabled) &&
		                WinHttpSendRequest(request, headers, (DWORD)-1, asking->payload->data, (DWORD)asking->payload->size,
		                                   (DWORD)asking->payload->size, 0) &&
		                WinHttpReceiveResponse(request, NULL) &&
		                WinHttpQueryHeaders(request, WINHTTP_QUERY_STATUS_CODE | WINHTTP_QUERY_FLAG_NUMBER, WINHTTP_HEADER_NAME_BY_INDEX,
		                                    &status, &size, WINHTTP_NO_HEADER_INDEX) &&
		                status == 200 && read_answer(request, &asking->received);
	}
	free(token.data), free(head.data);
	return 0; /* the handles end with the process */
}

/* --- Processes -------------------------------------------------------------------------------------------------- */

/* Start a program. It reads `input`, or nothing with INVALID_HANDLE_VALUE, and its output is discarded. With NULL it
 * gets the host's own three handles. */
static HANDLE start(wchar_t *command, HANDLE input, DWORD flags) {
	SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
	STARTUPINFOW info = {.cb = sizeof info};
	PROCESS_INFORMATION made = {0};
	info.dwFlags = STARTF_USESTDHANDLES;
	if (!input) {
		info.hStdInput = GetStdHandle(STD_INPUT_HANDLE), info.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
		info.hStdError = GetStdHandle(STD_ERROR_HANDLE);
		SetHandleInformation(info.hStdInput, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
		SetHandleInformation(info.hStdOutput, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
		SetHandleInformation(info.hStdError, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
	} else {
		HANDLE nothing = CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
		for (DWORD at = 0; at < 3; at++) /* the host may wait until no process has its pipes any more */
			SetHandleInformation(GetStdHandle((DWORD)(-10 - (int)at)), HANDLE_FLAG_INHERIT, 0);
		info.hStdInput = input == INVALID_HANDLE_VALUE ? nothing : input, info.hStdOutput = info.hStdError = nothing;
	}
	if (!CreateProcessW(NULL, command, NULL, NULL, TRUE, flags, NULL, NULL, &info, &made)) return NULL;
	CloseHandle(made.hThread);
	return made.hProcess;
}

/* Let Python inspect a file of this machine. Returns its exit code, 2 if it does not finish in time. */
static int look_here(const struct text *lines, DWORD milliseconds) {
	static wchar_t command[32768];
	DWORD code = 2;
	HANDLE process = wide(value_of(lines, "here", NULL), command, 32768) ? start(command, NULL, 0) : NULL;
	if (!process) return 2;
	if (WaitForSingleObject(process, milliseconds) != WAIT_OBJECT_0 || !GetExitCodeProcess(process, &code)) {
		TerminateProcess(process, 2);
		code = 2;
	}
	return code ? 2 : 0;
}

/* Pass the payload to a new process that outlives this one. Returns whether that succeeded. */
static int go_on_alone(const wchar_t *self, const char *host, const struct text *payload) {
	SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
	static wchar_t command[LONGEST_PATH + 64];
	HANDLE from, to;
	if (payload->size > 64u << 20 || !CreatePipe(&from, &to, &inherited, (DWORD)payload->size + 4096)) return 0;
	SetHandleInformation(to, HANDLE_FLAG_INHERIT, 0);
	_snwprintf(command, LONGEST_PATH + 63, L"\"%ls\" %hs told", self, host);
	if (!start(command, from, CREATE_NO_WINDOW)) return 0;
	CloseHandle(from);
	for (size_t sent = 0; sent < payload->size;) {
		DWORD count = 0;
		if (!WriteFile(to, payload->data + sent, (DWORD)(payload->size - sent), &count, NULL) || !count) break;
		sent += count;
	}
	CloseHandle(to);
	return 1;
}

/* Fetch the newest tier table in the background when a session starts or receives a prompt. */
static void tend(const struct text *lines, const struct text *payload) {
	static wchar_t command[32768];
	if (!SPEAKS_OF(payload, tending)) return;
	if (wide(value_of(lines, "tend", NULL), command, 32768)) start(command, INVALID_HANDLE_VALUE, CREATE_NO_WINDOW);
}

/* --- The hook --------------------------------------------------------------------------------------------------- */

static int give_up(const struct text *payload, const char *host) {
	char words[320];
	int code = give_up_words(payload, host, words, sizeof words);
	write_all(STD_ERROR_HANDLE, words, strlen(words));
	return code;
}

static int hand_on(const struct text *payload, const char *host, struct text *answer) {
	if (append(answer, "\n", 1) && write_all(STD_OUTPUT_HANDLE, answer->data, answer->size)) return 0;
	return give_up(payload, host);
}

static int answer_event(const struct text *lines, const char *host, const struct text *payload, int report) {
	static struct asking asking; /* the thread may outlive the wait for it */
	DWORD milliseconds = (DWORD)number_of(lines, report ? "patience" : "milliseconds");
	struct text tiers = {0}, said = {0};
	if (report || !is_hung(lines)) {
		asking = (struct asking){lines, payload, milliseconds, {0}, 0};
		HANDLE thread = CreateThread(NULL, 0, ask, &asking, 0, NULL);
		DWORD ended = thread ? WaitForSingleObject(thread, milliseconds) : WAIT_FAILED;
		if (ended == WAIT_TIMEOUT) note(lines, 0);
		if (ended == WAIT_OBJECT_0 && asking.clean) {
			note(lines, 1);
			int code = is_word(&asking.received, "{}") ? 0 : hand_on(payload, host, &asking.received);
			tend(lines, payload);
			return code;
		}
	}
	if (read_named(value_of(lines, "tiers", NULL), &tiers) && !split_lines(&tiers, "callosum-tiers 1")) tiers.size = 0;
	int judged = decide(lines, &tiers, payload, &said);
	return judged == GOES_ON ? 0 : judged == IS_REFUSED ? hand_on(payload, host, &said) : give_up(payload, host);
}

static DWORD WINAPI watch(void *seconds) {
	Sleep((DWORD)(uintptr_t)seconds * 1000);
	end((int)late_code);
	return 0;
}

static int say_token(const wchar_t *path) {
	struct text token = {0};
	const char *why = read_token(path, &token);
	if (why) write_all(STD_ERROR_HANDLE, why, strlen(why));
	return why ? 1 : 0;
}

int wmain(int argc, wchar_t **argv) {
	static wchar_t self[LONGEST_PATH], beside[LONGEST_PATH + 8];
	struct text lines = {0}, payload = {0};
	char host[40] = "";
	if (argc == 3 && !wcscmp(argv[1], L"token")) end(say_token(argv[2]));
	if (argc > 1) snprintf(host, sizeof host, "%ls", argv[1]);
	const wchar_t *word = argc > 2 ? argv[2] : L"";
	int report = !wcscmp(word, L"report"), told = !wcscmp(word, L"told"), named = is_host(host), known = 0;
	DWORD length = GetModuleFileNameW(NULL, self, LONGEST_PATH);
	if (named && length && length < LONGEST_PATH - 1) {
		_snwprintf(beside, LONGEST_PATH + 7, L"%ls.conf", self);
		HANDLE file = open_file(beside, GENERIC_READ, OPEN_EXISTING);
		known = file != INVALID_HANDLE_VALUE && read_all(file, &lines, LONGEST_FILE) && split_lines(&lines, "callosum-hook-remote 1");
		if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
	}
	int64_t limit = known ? number_of(&lines, "limit") : 0;
	if (!limit || limit > 3600) limit = USUAL_LIMIT;
	if (told) limit += number_of(&lines, "patience") / 1000;
	CreateThread(NULL, 0, watch, (void *)(uintptr_t)limit, 0, NULL);
	if (known && !wcscmp(word, L"here")) end(look_here(&lines, (DWORD)limit * 1000));
	int whole = read_all(GetStdHandle(STD_INPUT_HANDLE), &payload, LONGEST_PAYLOAD);
	if (!append(&payload, "", 0)) end(2);
	char words[320];
	late_code = give_up_words(&payload, host, words, sizeof words);
	int usable = known && whole;
	if (report && usable && go_on_alone(self, host, &payload)) end(0);
	if (told || report) end(usable ? answer_event(&lines, host, &payload, told) & 0 : 0);
	end(usable ? answer_event(&lines, host, &payload, 0) : give_up(&payload, named ? host : "HOST"));
	return 2;
}
