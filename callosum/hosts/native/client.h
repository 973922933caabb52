/* Shared by the hook clients of all systems: bytes, numbers, and the form of a clean answer. Plain C without system
 * calls. */
#ifndef CALLOSUM_CLIENT_H
#define CALLOSUM_CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 1024 };

struct text { /* bytes, always followed by a NUL that is not counted */
	char *data;
	size_t size, room;
};

static int make_room(struct text *text, size_t more) {
	if (text->room - text->size > more) return 1;
	size_t room = text->room ? text->room : 8192;
	while (room - text->size <= more) {
		if (room > SIZE_MAX / 2) return 0;
		room *= 2;
	}
	char *data = realloc(text->data, room);
	if (!data) return 0;
	text->data = data, text->room = room;
	return 1;
}

static int append(struct text *text, const void *data, size_t size) {
	if (!make_room(text, size)) return 0;
	if (size) memcpy(text->data + text->size, data, size);
	text->size += size, text->data[text->size] = 0;
	return 1;
}

static int contains(const struct text *text, const char *word) {
	size_t size = strlen(word);
	for (size_t at = 0; size <= text->size && at <= text->size - size; at++)
		if (!memcmp(text->data + at, word, size)) return 1;
	return 0;
}

static int number(const char *text, int64_t most, int64_t *found) {
	int64_t value = 0;
	if (!*text) return 0;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > (most - (*text - '0')) / 10) return 0;
		value = value * 10 + (*text - '0');
	}
	return *found = value, 1;
}

static int is_host(const char *name) {
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
	return length > 0 && length <= 32 && !name[length];
}

/* Return whether the text is one JSON object, judging by its strings and brackets. */
static int is_object(const char *text, size_t size) {
	unsigned char open[DEEPEST / 8] = {0}; /* a bit for each level: 1 is an object */
	size_t depth = 0;
	int quoted = 0;
	if (!size || text[0] != '{') return 0;
	for (size_t at = 0; at < size; at++) {
		unsigned char sign = (unsigned char)text[at];
		if (quoted) {
			if (sign < 0x20) return 0;
			if (sign == '\\' && ++at >= size) return 0;
			if (sign == '"') quoted = 0;
		} else if (sign == '"') {
			quoted = 1;
		} else if (sign == '{' || sign == '[') {
			unsigned char bit = (unsigned char)(1u << (depth & 7));
			if (depth == DEEPEST) return 0;
			if (sign == '{') open[depth / 8] |= bit;
			else open[depth / 8] &= (unsigned char)~bit;
			depth++;
		} else if (sign == '}' || sign == ']') {
			if (!depth--) return 0;
			if (((open[depth / 8] >> (depth & 7)) & 1) != (sign == '}')) return 0;
			if (!depth) return at == size - 1;
		} else if (!sign || !strchr(" \t\r\n,:+-.0123456789Eaeflnrstu", sign)) {
			return 0;
		}
	}
	return 0;
}

/* Names of the events in which hosts ask about a call, and of those at which a session starts or receives a prompt. The
 * build defines them: see `definitions` in callosum/hosts/native/__init__.py. */
static const char *const asking[] = {ASKING}, *const tending[] = {TENDING};

static int speaks_of(const struct text *payload, const char *const *events, size_t size) {
	for (size_t at = 0; at < size; at++)
		if (contains(payload, events[at])) return 1;
	return 0;
}
#define SPEAKS_OF(payload, events) speaks_of(payload, events, sizeof events / sizeof *events)

/* Print the message for an event that nothing can decide. Returns the exit code: anything but a tool call continues. */
static int give_up_words(const struct text *payload, const char *host, char *words, size_t room) {
	words[0] = 0;
	if (!SPEAKS_OF(payload, asking) && contains(payload, "hook_event_name")) return 0;
	snprintf(words, room,
	         "Callosum: neither the gate nor its tier table is available, so nothing runs. Fix it with `callosum doctor`, or remove "
	         "the hooks with `callosum uninstall %s`.\n", host);
	return 2;
}

#endif
