/* The native hook client of Callosum. `callosum-hook HOST` asks the local gate about a hook event of that host, which
 * it reads from standard input. `callosum-hook HOST report` delivers an event whose answer nobody waits for. The client
 * does what `hook.sh` does, without a shell and without curl.
 *
 *     payload ──> one HTTP request over the gate's Unix socket ──┬── a clean answer: printed, exit code 0
 *                                                                └── anything else: callosum.hosts.offline decides
 *
 * A clean answer is a complete 200 response with one JSON object, from the process that is the gate of this
 * installation (the rule at the top of callosum/sockets.py). A tool call that nothing can decide does not run (exit
 * code 2). The client knows nothing about tiers, hosts or rules. Every name comes from the file `<its own path>.conf`,
 * which `callosum install` writes with one `key value` per line (callosum/hosts/native/__init__.py).
 *
 * Every wait ends: reading the payload after five seconds, asking after `milliseconds` (a report: `patience`), and
 * everything together after `limit` seconds.
 * One second later the kernel ends the process with SIGALRM, which no host takes for a yes.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <sys/syscall.h>
#endif
#include "client.h"

extern char **environ;

/* Exit codes of curl, which callosum.hosts.offline understands. */
enum { CLEAN = 0, NO_GATE = 1, NOBODY = 7, PARTIAL = 18, REFUSED = 22, LATE = 28, EMPTY = 52, NOT_SENT = 55, BROKEN = 56 };

enum { MOST_WORDS = 64, INPUT_MS = 5000 }; /* INPUT_MS: the time in which the payload must arrive */
static const size_t LONGEST_PAYLOAD = 256u << 20, LONGEST_ANSWER = 64u << 20, LONGEST_FILE = 1u << 20;

struct settings { /* the .conf file; a missing field is NULL or 0 */
	char *socket, *origin, *hung, *query, *programs, *root, *interpreter, *state;
	long milliseconds, patience, limit, hung_seconds, hung_status;
	char *offline[MOST_WORDS], *drop[MOST_WORDS];
	size_t offline_count, drop_count;
};

/* --- Time and bytes --------------------------------------------------------------------------------------------- */

static int64_t clock_ms(clockid_t clock) {
	struct timespec now;
	return clock_gettime(clock, &now) ? 0 : (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t now_ms(void) { return clock_ms(CLOCK_MONOTONIC); }

/* Return the milliseconds until a time, as poll() takes them. */
static int left_until(int64_t ends) {
	int64_t left = ends - now_ms();
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static int sooner(int left, int most) { return left < most ? left : most; }

/* Read once what is available. Returns the bytes, 0 at the end, -1 with errno, also EFBIG beyond `most`. */
static ssize_t read_more(int from, struct text *text, size_t most) {
	if (!make_room(text, 65536)) return errno = ENOMEM, -1;
	ssize_t count = read(from, text->data + text->size, text->room - text->size - 1);
	if (count <= 0) return count;
	text->size += (size_t)count, text->data[text->size] = 0;
	return text->size > most ? (errno = EFBIG, -1) : count;
}

static int passing(int error) { return error == EINTR || error == EAGAIN || error == EWOULDBLOCK; }

/* Read standard input to its end. Returns 0 if it is not complete by then. */
static int read_input(struct text *text, int64_t ends) {
	for (;;) {
		struct pollfd input = {0, POLLIN, 0};
		int ready = poll(&input, 1, left_until(ends));
		if (ready == 0) return 0;
		if (ready < 0) {
			if (errno == EINTR) continue;
			return 0;
		}
		ssize_t count = read_more(0, text, LONGEST_PAYLOAD);
		if (count == 0) return append(text, "", 0);
		if (count < 0 && !passing(errno)) return 0;
	}
}

/* Read a small regular file. Returns 0 if there is none. */
static int read_file(const char *path, struct text *text) {
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	ssize_t count = -1;
	if (file < 0) return 0;
	if (!fstat(file, &status) && S_ISREG(status.st_mode))
		while ((count = read_more(file, text, LONGEST_FILE)) > 0 || (count < 0 && errno == EINTR)) continue;
	close(file);
	return count == 0 && append(text, "", 0);
}

static int write_all(int to, const char *data, size_t size) {
	while (size) {
		ssize_t count = write(to, data, size);
		if (count < 0 && errno == EINTR) continue;
		if (count < 0 && passing(errno)) { /* another process made the pipe non-blocking; the alarm bounds this */
			struct pollfd output = {to, POLLOUT, 0};
			poll(&output, 1, 1000);
			continue;
		}
		if (count <= 0) return 0;
		data += count, size -= (size_t)count;
	}
	return 1;
}

/* --- Settings --------------------------------------------------------------------------------------------------- */

static int own_path(char *path, size_t room) {
#ifdef __APPLE__
	char raw[PATH_MAX];
	uint32_t size = sizeof raw;
	(void)room;
	return _NSGetExecutablePath(raw, &size) == 0 && realpath(raw, path) != NULL;
#else
	static const char gone[] = " (deleted)"; /* an update has just replaced this very file */
	ssize_t length = readlink("/proc/self/exe", path, room - 1);
	if (length <= 0 || (size_t)length >= room - 1) return 0;
	path[length] = 0;
	size_t ends = (size_t)length - (sizeof gone - 1);
	if ((size_t)length > sizeof gone && !strcmp(path + ends, gone)) path[ends] = 0;
	return 1;
#endif
}

/* Read the settings. The fields point into `file`, which the caller keeps. Returns 0 if they cannot be used. */
static int read_settings(const char *path, struct text *file, struct settings *settings) {
	const struct { const char *key; char **field; } texts[] = {
		{"socket", &settings->socket}, {"origin", &settings->origin}, {"hung", &settings->hung},
		{"query", &settings->query}, {"programs", &settings->programs}, {"root", &settings->root},
		{"interpreter", &settings->interpreter}, {"state", &settings->state},
	};
	const struct { const char *key; long *field; } numbers[] = {
		{"milliseconds", &settings->milliseconds}, {"patience", &settings->patience}, {"limit", &settings->limit},
		{"hung-seconds", &settings->hung_seconds}, {"hung-status", &settings->hung_status},
	};
	if (!read_file(path, file) || memchr(file->data, 0, file->size)) return 0;
	char *rest = file->data, *line = strsep(&rest, "\n");
	if (strcmp(line, "callosum-hook 1")) return 0;
	while ((line = strsep(&rest, "\n"))) {
		char *value = strchr(line, ' ');
		if (!value) continue;
		*value++ = 0;
		for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
			if (!strcmp(line, texts[at].key)) *texts[at].field = value;
		for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
			if (!strcmp(line, numbers[at].key)) {
				int64_t found;
				if (!number(value, 1000000, &found)) return 0;
				*numbers[at].field = (long)found;
			}
		if (!strcmp(line, "offline")) {
			if (settings->offline_count == MOST_WORDS) return 0;
			settings->offline[settings->offline_count++] = value;
		}
		if (!strcmp(line, "drop")) {
			if (settings->drop_count == MOST_WORDS) return 0;
			settings->drop[settings->drop_count++] = value;
		}
	}
	for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
		if (!*texts[at].field) return 0;
	for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
		if (!*numbers[at].field) return 0;
	return settings->offline_count > 0 && settings->limit <= 3600;
}

/* Remove the variables that change which code runs: `drop NAME`, or `drop PREFIX*`. */
static void clean_environment(const struct settings *settings) {
	char **kept = environ;
	for (char **one = environ; *one; one++) {
		size_t name = strcspn(*one, "="), at = 0;
		for (; at < settings->drop_count; at++) {
			const char *drop = settings->drop[at];
			size_t length = strlen(drop);
			if (length && drop[length - 1] == '*' ? !strncmp(*one, drop, length - 1)
			                                      : length == name && !strncmp(*one, drop, name))
				break;
		}
		if (at == settings->drop_count) *kept++ = *one;
	}
	*kept = NULL;
}

/* --- Hung gates: callosum.sockets.note_hung --------------------------------------------------------------------- */

static int64_t uptime_second(void) {
#ifdef __APPLE__
	return (int64_t)time(NULL);
#else
	return clock_ms(CLOCK_BOOTTIME) / 1000;
#endif
}

static int is_hung(const struct settings *settings) {
	struct stat status;
	if (stat(settings->hung, &status) || status.st_size == 0) return 0;
	struct text said = {0};
	int64_t until = 0;
	int hung = 0;
	if (read_file(settings->hung, &said)) {
		said.data[strcspn(said.data, "\n")] = 0;
		if (number(said.data, INT64_MAX / 2, &until)) {
			int64_t left = until - uptime_second();
			hung = left > 0 && left <= settings->hung_seconds;
		}
	}
	free(said.data);
	return hung;
}

static void note_answered(const struct settings *settings) {
	struct stat status;
	if (stat(settings->hung, &status) || !S_ISREG(status.st_mode) || status.st_size == 0) return;
	int file = open(settings->hung, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (file >= 0) close(file);
}

/* --- The listening process: callosum.sockets.stranger ----------------------------------------------------------- */

static int peer(int channel, pid_t *pid, uid_t *user) {
#ifdef __APPLE__
	gid_t group;
	socklen_t size = sizeof *pid;
	return !getsockopt(channel, 0 /* SOL_LOCAL */, 2 /* LOCAL_PEERPID */, pid, &size) && !getpeereid(channel, user, &group);
#else
	struct ucred found;
	socklen_t size = sizeof found;
	if (getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &found, &size) || size != sizeof found) return 0;
	return *pid = found.pid, *user = found.uid, 1;
#endif
}

/* Return whether the process runs the recorded interpreter; true if the system has no /proc. */
static int runs_interpreter(const struct settings *settings, pid_t pid) {
	char program[64], runs[PATH_MAX + 16], ours[PATH_MAX];
	struct stat theirs, recorded;
	snprintf(program, sizeof program, "/proc/%ld/exe", (long)pid);
	if (stat(program, &theirs)) return stat("/proc/self", &theirs) != 0;
	if (stat(settings->interpreter, &recorded)) return 0;
	if (theirs.st_dev == recorded.st_dev && theirs.st_ino == recorded.st_ino) return 1;
	ssize_t length = readlink(program, runs, sizeof runs - 1); /* the program was replaced while it runs */
	if (length <= 0 || !realpath(settings->interpreter, ours)) return 0;
	runs[length] = 0;
	size_t known = strlen(ours);
	return !strncmp(runs, ours, known) && !strcmp(runs + known, " (deleted)");
}

static int is_gate(int channel, const struct settings *settings) {
	pid_t pid = 0;
	uid_t user;
	struct text said = {0};
	char own[32];
	int same = 0;
	if (!peer(channel, &pid, &user) || user != geteuid() || pid <= 0) return 0;
	snprintf(own, sizeof own, "%ld", (long)pid);
	if (read_file(settings->origin, &said) && !memchr(said.data, 0, said.size)) {
		char *rest = said.data, *line[3];
		for (size_t at = 0; at < 3; at++) line[at] = rest ? strsep(&rest, "\n") : NULL;
		same = line[2] && !strcmp(line[0], own) && !strcmp(line[1], settings->programs) && !strcmp(line[2], settings->root);
	}
	free(said.data);
	return same && runs_interpreter(settings, pid);
}

/* --- The answer ------------------------------------------------------------------------------------------------- */

struct head { /* of an HTTP response; `length` is -1 if it is not given */
	size_t body;
	int status;
	int64_t length;
};

/* Read the head of a response. Returns 1, 0 if it is incomplete, -1 if it cannot be a gate's. */
static int read_head(const struct text *received, struct head *head) {
	static const char version[] = "HTTP/1.1 ";
	size_t known = sizeof version - 1;
	if (memcmp(received->data, version, received->size < known ? received->size : known)) return -1;
	const char *end = memmem(received->data, received->size, "\r\n\r\n", 4);
	if (!end) return received->size > 65536 ? -1 : 0;
	const char *line = received->data + known;
	if (end - line < 3 || !isdigit((unsigned char)line[0]) || !isdigit((unsigned char)line[1]) || !isdigit((unsigned char)line[2]))
		return -1;
	if (line[3] != ' ' && line[3] != '\r') return -1;
	*head = (struct head){(size_t)(end - received->data) + 4, (line[0] - '0') * 100 + (line[1] - '0') * 10 + line[2] - '0', -1};
	while ((line = memmem(line, (size_t)(end - line) + 2, "\r\n", 2)) && line < end) {
		static const char length[] = "content-length:", coding[] = "transfer-encoding:";
		line += 2;
		if (!strncasecmp(line, coding, sizeof coding - 1)) return -1;
		if (strncasecmp(line, length, sizeof length - 1)) continue;
		const char *digit = line + sizeof length - 1;
		int64_t value = 0;
		while (*digit == ' ' || *digit == '\t') digit++;
		if (!isdigit((unsigned char)*digit) || head->length >= 0) return -1;
		for (; isdigit((unsigned char)*digit); digit++)
			if ((value = value * 10 + (*digit - '0')) > (int64_t)LONGEST_ANSWER) return -1;
		while (*digit == ' ' || *digit == '\t') digit++;
		if (*digit != '\r') return -1;
		head->length = value;
	}
	return 1;
}

/* Check what was received. Returns a status of curl, -1 if more is to come. `answer` is a part of `received`. */
static int judge(const struct text *received, int ended, const char **answer, size_t *size) {
	struct head head;
	if (!received->size) return ended ? EMPTY : -1;
	int complete = read_head(received, &head);
	if (complete < 0) return NO_GATE;
	if (!complete) return ended ? PARTIAL : -1;
	if (head.status >= 400) return REFUSED;
	if (head.status != 200) return NO_GATE;
	size_t there = received->size - head.body;
	if (head.length >= 0 && there < (size_t)head.length) return ended ? PARTIAL : -1;
	if (head.length < 0 && !ended) return -1;
	if (head.length >= 0) there = (size_t)head.length;
	*answer = received->data + head.body;
	while (there && strchr(" \t\r\n", (*answer)[there - 1]) && (*answer)[there - 1]) there--;
	*size = there;
	return is_object(*answer, there) && is_utf8(*answer, there) ? CLEAN : NO_GATE;
}

/* --- Asking ----------------------------------------------------------------------------------------------------- */

static int connect_to(const char *path, int64_t ends, int *status) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path) return *status = NOBODY, -1;
	memcpy(address.sun_path, path, strlen(path) + 1);
	int channel = socket(AF_UNIX, SOCK_STREAM, 0);
	if (channel < 0) return *status = NOBODY, -1;
	fcntl(channel, F_SETFD, FD_CLOEXEC);
	fcntl(channel, F_SETFL, O_NONBLOCK);
	while (connect(channel, (struct sockaddr *)&address, sizeof address)) {
		if (errno == EISCONN) break;
		*status = NOBODY;
		if (!passing(errno) && errno != EINPROGRESS && errno != EALREADY) return close(channel), -1;
		*status = LATE; /* its queue is full, like that of a stopped gate */
		if (!left_until(ends)) return close(channel), -1;
		poll(NULL, 0, sooner(left_until(ends), 5));
	}
	return channel;
}

/* Return the deadline for the answer, in the form of callosum.deadline. */
static int add_limit(struct text *head, long milliseconds, int64_t ends) {
	char limit[128];
	struct text boot = {0};
	snprintf(limit, sizeof limit, "&timeoutMs=%ld", milliseconds);
	int fits = append(head, limit, strlen(limit));
#ifndef __APPLE__
	if (fits && read_file("/proc/sys/kernel/random/boot_id", &boot) && boot.size <= 64) {
		int64_t until = clock_ms(CLOCK_BOOTTIME) + left_until(ends);
		boot.data[strcspn(boot.data, "\n")] = 0;
		snprintf(limit, sizeof limit, "&deadline=%.40s:%lld.%03d", boot.data, (long long)(until / 1000), (int)(until % 1000));
		fits = append(head, limit, strlen(limit));
	}
#else
	(void)ends;
#endif
	free(boot.data);
	return fits;
}

/* Return the caller's home, if it is absolute and needs no encoding. */
static int add_home(struct text *head) {
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
	const char *home = getenv("HOME");
	if (!home || *home != '/' || strlen(home) > 4096 || home[strspn(home, plain)]) return 1;
	return append(head, "&home=", 6) && append(head, home, strlen(home));
}

/* Ask the gate. Returns CLEAN with its answer, or the exit code that curl would have. */
static int ask(const struct settings *settings, const char *target, const struct text *payload, long milliseconds,
               struct text *received, const char **answer, size_t *size) {
	int64_t ends = now_ms() + milliseconds;
	int status = NOBODY, channel = connect_to(settings->socket, ends, &status);
	struct text head = {0};
	char length[128];
	size_t sent = 0;
	if (channel < 0) return status;
	snprintf(length, sizeof length, "Content-Length: %zu\r\nConnection: close\r\n\r\n", payload->size);
	static const char fixed[] = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
	if (!is_gate(channel, settings) || !append(&head, "POST ", 5) || !append(&head, target, strlen(target)) ||
	    !add_limit(&head, milliseconds, ends) || !add_home(&head) || !append(&head, fixed, sizeof fixed - 1) ||
	    !append(&head, length, strlen(length))) {
		free(head.data);
		close(channel);
		return NOBODY;
	}
	size_t small = payload->size <= 65536 ? payload->size : 0; /* small enough for one packet */
	size_t total = head.size + payload->size;
	if (small && append(&head, payload->data, small)) total = head.size;
	int ended = 0, closed = 0;
	while ((status = judge(received, ended, answer, size)) < 0) {
		struct pollfd gate = {channel, (short)(POLLIN | (sent < total && !closed ? POLLOUT : 0)), 0};
		int left = left_until(ends);
		if (poll(&gate, 1, left) < 0 && errno != EINTR) gate.revents = 0, left = 0;
		if (!left && !(gate.revents & POLLIN)) {
			status = LATE;
			break;
		}
		if (gate.revents & POLLOUT && sent < total && !closed) {
			int in_head = sent < head.size;
			const char *from = in_head ? head.data + sent : payload->data + (sent - head.size);
			ssize_t count = write(channel, from, in_head ? head.size - sent : total - sent);
			if (count > 0) sent += (size_t)count;
			else if (count < 0 && !passing(errno)) closed = 1; /* it may have answered before it received everything */
		}
		if (gate.revents & (POLLIN | POLLHUP | POLLERR) || closed) {
			ssize_t count = read_more(channel, received, LONGEST_ANSWER);
			if (count == 0) ended = 1;
			if (count < 0 && errno == EFBIG) status = NO_GATE;
			else if (count < 0 && !passing(errno)) status = received->size ? BROKEN : NOT_SENT;
			if (count < 0 && !passing(errno)) break;
		}
	}
	close(channel);
	free(head.data);
	return status;
}

/* --- Without the gate ------------------------------------------------------------------------------------------- */

/* Let callosum.hosts.offline decide. Returns whether it did; its output is in `said`. */
static int decide_offline(const struct settings *settings, const char *host, const char *target, int status,
                          const struct text *payload, int64_t ends, struct text *said) {
	char *words[MOST_WORDS + 8], code[16];
	size_t count = settings->offline_count, sent = 0;
	int to[2], from[2], result = 0;
	snprintf(code, sizeof code, "%d", status);
	memcpy(words, settings->offline, count * sizeof *words);
	const char *more[] = {host, settings->state, settings->socket, target, code};
	for (size_t at = 0; at < sizeof more / sizeof *more; at++) words[count++] = (char *)(uintptr_t)more[at];
	words[count] = NULL;
	if (pipe(to)) return 0;
	if (pipe(from)) return close(to[0]), close(to[1]), 0;
	for (int at = 0; at < 2; at++) fcntl(to[at], F_SETFD, FD_CLOEXEC), fcntl(from[at], F_SETFD, FD_CLOEXEC);
	pid_t child = fork();
	if (child == 0) {
		signal(SIGPIPE, SIG_DFL);
		if (dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1) execve(words[0], words, environ);
		_exit(127);
	}
	close(to[0]), close(from[1]);
	fcntl(to[1], F_SETFL, O_NONBLOCK), fcntl(from[0], F_SETFL, O_NONBLOCK);
	int feeding = to[1], gone = child < 0;
	while (!gone && left_until(ends)) {
		if (feeding >= 0 && sent == payload->size) close(feeding), feeding = -1;
		struct pollfd pipes[2] = {{from[0], POLLIN, 0}, {feeding, POLLOUT, 0}};
		if (poll(pipes, 2, sooner(left_until(ends), 100)) < 0 && errno != EINTR) break;
		if (feeding >= 0 && pipes[1].revents) {
			ssize_t wrote = write(feeding, payload->data + sent, payload->size - sent);
			if (wrote > 0) sent += (size_t)wrote;
			else if (wrote < 0 && !passing(errno)) close(feeding), feeding = -1;
		}
		/* Another process may keep the other end open for ever, so the end of the process itself counts. */
		gone = waitpid(child, &result, WNOHANG) == child;
		ssize_t read_now;
		while ((read_now = read_more(from[0], said, LONGEST_ANSWER)) > 0) continue;
		if (read_now < 0 && errno == EFBIG) break;
		if (read_now == 0 && !gone) { /* it has printed everything and is about to exit */
			if (feeding >= 0) close(feeding), feeding = -1;
			for (int wait = 1; !gone && left_until(ends); wait = sooner(2 * wait, 20)) {
				if ((gone = waitpid(child, &result, WNOHANG) == child)) break;
				poll(NULL, 0, sooner(left_until(ends), wait));
			}
		}
	}
	if (feeding >= 0) close(feeding);
	close(from[0]);
	if (child > 0 && !gone) kill(child, SIGKILL), waitpid(child, &result, 0);
	return child > 0 && gone && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

/* --- The hook --------------------------------------------------------------------------------------------------- */

/* Nothing can decide the event. Returns the exit code. */
static int give_up(const struct text *payload, const char *host) {
	char words[320];
	int code = give_up_words(payload, host, words, sizeof words);
	write_all(2, words, strlen(words));
	return code;
}

/* Print the decision. Returns the exit code: a host that cannot be told no is told by the code. */
static int hand_on(const struct text *payload, const char *host, const char *answer, size_t size) {
	return write_all(1, answer, size) ? 0 : give_up(payload, host);
}

static int answer_event(const struct settings *settings, const char *host, const struct text *payload, long parent,
                        int report, int64_t ends) {
	struct text target = {0}, received = {0}, said = {0};
	char asked[128];
	const char *answer = NULL;
	size_t size = 0;
	int status = (int)settings->hung_status;
	snprintf(asked, sizeof asked, "/hooks/%s?pid=%ld%s", host, parent, *settings->query ? "&" : "");
	if (!append(&target, asked, strlen(asked)) || !append(&target, settings->query, strlen(settings->query)))
		return give_up(payload, host);
	if (report || !is_hung(settings))
		status = ask(settings, target.data, payload, report ? settings->patience : settings->milliseconds, &received, &answer, &size);
	if (status == CLEAN) {
		note_answered(settings);
		if (size == 2) return 0; /* {}: nothing to print */
		struct text line = {0};
		if (!append(&line, answer, size) || !append(&line, "\n", 1)) return give_up(payload, host);
		return hand_on(payload, host, line.data, line.size);
	}
	clean_environment(settings);
	if (decide_offline(settings, host, target.data, status, payload, ends, &said))
		return hand_on(payload, host, said.data, said.size);
	return give_up(payload, host);
}

/* Release the host's descriptors, because it may wait until no process has its pipes any more. */
static void close_descriptors(void) {
	int nothing = open("/dev/null", O_RDWR);
	for (int at = 0; at < 3 && nothing >= 0; at++) dup2(nothing, at);
#ifdef SYS_close_range
	if (!syscall(SYS_close_range, 3u, ~0u, 0u)) return;
#endif
	for (int at = 3; at < 1024; at++) close(at);
}

/* Continue in a new process and session. Returns whether this is that process. */
static int go_on_alone(void) {
	pid_t child = fork();
	if (child > 0) _exit(0);
	if (child < 0) return 0;
	setsid();
	signal(SIGHUP, SIG_IGN);
	return 1;
}

int main(int argc, char **argv) {
	char path[PATH_MAX + 16];
	struct text file = {0}, payload = {0};
	struct settings settings = {0};
	sigset_t alarms;
	long parent = (long)getppid();
	for (int at = 0; at < 3; at++) /* a descriptor that the host closed must not become the socket */
		if (fcntl(at, F_GETFD) < 0 && open("/dev/null", at == 0 ? O_WRONLY : O_RDONLY) != at) return 2;
	signal(SIGPIPE, SIG_IGN), signal(SIGALRM, SIG_DFL), signal(SIGCHLD, SIG_DFL);
	sigemptyset(&alarms), sigaddset(&alarms, SIGALRM), sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	int64_t began = now_ms();
	const char *host = argc > 1 && is_host(argv[1]) ? argv[1] : "HOST";
	int report = argc > 2 && !strcmp(argv[2], "report");
	int known = own_path(path, PATH_MAX) && strlen(path) < PATH_MAX - 8;
	if (known) known = read_settings(strcat(path, ".conf"), &file, &settings);
	long limit = known ? settings.limit : 15;
	int64_t ends = began + limit * 1000;
	alarm((unsigned)limit + 1);
	int whole = read_input(&payload, began + (limit * 1000 < INPUT_MS ? limit * 1000 : INPUT_MS));
	if (!append(&payload, "", 0)) return 2;
	size_t length = payload.size; /* a host that keeps its pipe open may have written everything */
	while (length && isspace((unsigned char)payload.data[length - 1])) length--;
	whole = whole || is_object(payload.data, length);
	int usable = known && whole && strcmp(host, "HOST");
	if (!report) return usable ? answer_event(&settings, host, &payload, parent, 0, ends) : give_up(&payload, host);
	close_descriptors();
	if (usable && go_on_alone()) {
		alarm((unsigned)(limit + settings.patience / 1000) + 1);
		answer_event(&settings, host, &payload, parent, 1, now_ms() + limit * 1000 + settings.patience);
	} else if (usable) { /* no process can be created: report now, within a second */
		answer_event(&settings, host, &payload, parent, 0, ends);
	}
	_exit(0);
}
