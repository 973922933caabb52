/* Shared by the hook clients of all systems: bytes, numbers, and the form of a clean answer. Plain C without system
 * calls. */
#ifndef CALLOSUM_CLIENT_H
#define CALLOSUM_CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 1024, DEEPEST_PAYLOAD = 500, LONGEST_NUMBER = 4300 };

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

/* --- JSON ------------------------------------------------------------------------------------------------------- */

struct reader {
	const char *at, *end;
	int depth;
};

static void skip_space(struct reader *reader) {
	while (reader->at < reader->end && *reader->at && strchr(" \t\r\n", *reader->at)) reader->at++;
}

static int next_is(struct reader *reader, char sign) {
	skip_space(reader);
	if (reader->at >= reader->end || *reader->at != sign) return 0;
	return reader->at++, 1;
}

static int hex4(const char *at, const char *end, unsigned *found) {
	*found = 0;
	if (end - at < 4) return 0;
	for (int digit = 0; digit < 4; digit++) {
		const char *place = at[digit] ? strchr("0123456789abcdef0123456789ABCDEF", at[digit]) : NULL;
		if (!place) return 0;
		*found = *found * 16 + (unsigned)((place - "0123456789abcdef0123456789ABCDEF") & 15);
	}
	return 1;
}

static int append_code(struct text *into, unsigned code) {
	char bytes[4];
	size_t size = 0;
	if (code < 0x80) bytes[size++] = (char)code;
	else if (code < 0x800) bytes[size++] = (char)(0xc0 | code >> 6);
	else if (code < 0x10000) bytes[size++] = (char)(0xe0 | code >> 12), bytes[size++] = (char)(0x80 | (code >> 6 & 63));
	else {
		bytes[size++] = (char)(0xf0 | code >> 18), bytes[size++] = (char)(0x80 | (code >> 12 & 63));
		bytes[size++] = (char)(0x80 | (code >> 6 & 63));
	}
	if (code >= 0x80) bytes[size++] = (char)(0x80 | (code & 63));
	return append(into, bytes, size);
}

/* Read a string from behind its first quotation mark. `into` (may be NULL) gets its value. */
static int read_string(struct reader *reader, struct text *into) {
	static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	while (reader->at < reader->end) {
		const char *from = reader->at;
		while (reader->at < reader->end && *reader->at != '"' && *reader->at != '\\' && (unsigned char)*reader->at >= 0x20)
			reader->at++;
		if (into && !append(into, from, (size_t)(reader->at - from))) return 0;
		if (reader->at >= reader->end || (unsigned char)*reader->at < 0x20) return 0;
		if (*reader->at++ == '"') return 1;
		if (reader->at >= reader->end || !*reader->at) return 0;
		char sign = *reader->at++;
		const char *simple = strchr(escapes, sign);
		unsigned code = simple ? (unsigned char)meant[simple - escapes] : 0, low;
		if (!simple) {
			if (sign != 'u' || !hex4(reader->at, reader->end, &code)) return 0;
			reader->at += 4;
			if (code >= 0xd800 && code < 0xdc00 && reader->end - reader->at >= 6 && reader->at[0] == '\\' && reader->at[1] == 'u' &&
			    hex4(reader->at + 2, reader->end, &low) && low >= 0xdc00 && low < 0xe000)
				code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), reader->at += 6;
		}
		if (into && !append_code(into, code)) return 0;
	}
	return 0;
}

static int digits(struct reader *reader) {
	const char *from = reader->at;
	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') reader->at++;
	return reader->at > from;
}

static int read_number(struct reader *reader) {
	const char *from = reader->at;
	if (reader->at < reader->end && *reader->at == '-') reader->at++;
	if (reader->at < reader->end && *reader->at == '0') reader->at++;
	else if (!digits(reader)) return 0;
	if (reader->at < reader->end && *reader->at == '.' && (reader->at++, !digits(reader))) return 0;
	if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
		reader->at++;
		if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-')) reader->at++;
		if (!digits(reader)) return 0;
	}
	return reader->at - from <= LONGEST_NUMBER; /* the limit of Python */
}

static int read_word(struct reader *reader) {
	static const char *const words[] = {"true", "false", "null"};
	for (size_t at = 0; at < 3; at++) {
		size_t size = strlen(words[at]);
		if ((size_t)(reader->end - reader->at) >= size && !memcmp(reader->at, words[at], size))
			return reader->at += size, 1;
	}
	return 0;
}

/* Read any value. `words` (may be NULL) gets the strings in it and the names of members, one per line. */
static int read_value(struct reader *reader, struct text *words) {
	skip_space(reader);
	if (reader->at >= reader->end) return 0;
	char sign = *reader->at;
	if (sign == '"') return reader->at++, read_string(reader, words) && (!words || append(words, "\n", 1));
	if (sign != '{' && sign != '[') return sign == '-' || (sign >= '0' && sign <= '9') ? read_number(reader) : read_word(reader);
	char close = sign == '{' ? '}' : ']';
	reader->at++;
	if (next_is(reader, close)) return 1;
	if (++reader->depth > DEEPEST_PAYLOAD) return 0;
	do {
		if (sign == '{' && (!next_is(reader, '"') || !read_string(reader, words) || (words && !append(words, "\n", 1)) ||
		                    !next_is(reader, ':')))
			return 0;
		if (!read_value(reader, words)) return 0;
	} while (next_is(reader, ','));
	reader->depth--;
	return next_is(reader, close);
}

static int is_utf8(const char *text, size_t size) {
	for (size_t at = 0; at < size;) {
		unsigned char first = (unsigned char)text[at++];
		int more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
		unsigned char next = at < size ? (unsigned char)text[at] : 0;
		if (more < 0 || (first == 0xe0 && next < 0xa0) || (first == 0xf0 && next < 0x90) || (first == 0xf4 && next >= 0x90)) return 0;
		for (; more; more--, at++)
			if (at >= size || ((unsigned char)text[at] & 0xc0) != 0x80) return 0;
	}
	return 1;
}

/* Return whether the text is one JSON object and nothing else. Its strings may hold any bytes. */
static int is_object(const char *text, size_t size) {
	struct reader reader = {text, text + size, DEEPEST_PAYLOAD - DEEPEST};
	return size && *text == '{' && read_value(&reader, NULL) && reader.at == reader.end;
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
