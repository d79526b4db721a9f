// The interface topoloom:discovery@0.1.0 in C, without a C library: types as the canonical ABI lays them out, imports and exports,
// memory, JSON, and an answer that grows. Written by `topoloom plugin new`; a plugin is one C file that includes it and has the
// three functions describe, configure and discover.
//
// Every call runs in a fresh instance, so nothing is freed. A function that fails for lack of memory ends the call.
#ifndef TOPOLOOM_H
#define TOPOLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __wasm__
#define TL_IMPORT(interface, name) \
  __attribute__((import_module("topoloom:discovery/" interface "@0.1.0"), import_name(name)))
#define TL_EXPORT(name) __attribute__((export_name("topoloom:discovery/discoverer@0.1.0#" name)))
#else
#define TL_IMPORT(interface, name)
#define TL_EXPORT(name)
#endif
#define TL_UNUSED __attribute__((unused))

// ---- What the host and a plugin exchange -------------------------------------------------------------------------------

typedef struct { const char *at; uint32_t length; } tl_text;
typedef struct { void *at; uint32_t length; } tl_list;
typedef struct { uint8_t some; tl_text text; } tl_maybe;
// Many texts as one: entry i ends at ends[i], in bytes, and begins where the one before it ends.
typedef struct { tl_text text; tl_list ends; } tl_packed;
// A code per row: 0, the node lacks the key; n, entry n-1 of the dictionary.
typedef struct { tl_packed dictionary; tl_list codes; } tl_column;

typedef struct { tl_text name, version, vendor, summary, config_schema; } tl_description;
typedef struct { tl_text path, message; } tl_problem;

enum { TL_ON_COLUMNS, TL_ON_NAMES, TL_ON_TIMER };
typedef struct { uint8_t kind; uint32_t at_least; } tl_trigger;
enum { TL_NO_CREDENTIAL, TL_BASIC, TL_TOKEN, TL_BEARER, TL_MTLS };
enum { TL_GET, TL_HEAD, TL_POST, TL_PUT, TL_PATCH, TL_DELETE };
// Kind 0: the operator says where. What the other kinds carry is not used here.
typedef struct { uint8_t kind; uint32_t of[7]; } tl_location;
typedef struct { tl_maybe ca_bundle, server_name; uint8_t insecure_skip_verify; } tl_tls;
typedef struct {
  tl_text name, purpose;
  tl_location location;
  tl_list methods, paths; // of uint8_t; of tl_text
  tl_tls tls;
  tl_list credentials; // of uint8_t
} tl_endpoint;
// Lists of tl_text, tl_text, tl_endpoint and tl_trigger.
typedef struct { tl_list node_labels, node_annotations, endpoints, triggers; } tl_requirements;

typedef struct { tl_text key, value; } tl_pair;
typedef struct { uint32_t tier; tl_maybe name, kind; } tl_level;
typedef struct {
  tl_text id;
  uint32_t level;
  tl_list labels; // of tl_pair
  uint8_t form;   // 0: rows, 1: groups
  union { tl_list rows, groups; uint32_t room[4]; } members; // of uint32_t
  tl_maybe description, fixed_name;
} tl_group;
enum { TL_OF_SOURCE, TL_OF_ROWS, TL_OF_GROUP, TL_OF_NAME };
typedef struct { tl_text code; uint8_t subject; tl_list of; tl_text detail; } tl_diagnostic;
// Coverage 0: complete, 1: additions only. Lists of tl_level, tl_group and tl_diagnostic.
typedef struct { uint8_t coverage; tl_list levels, groups, diagnostics; } tl_topology;
typedef struct { uint8_t outcome; tl_topology topology; tl_list state; } tl_answer; // outcome 0: unchanged, 1: topology

enum { TL_FAILED_CONFIG, TL_FAILED_DENIED, TL_FAILED_UNAUTHORIZED, TL_FAILED_UPSTREAM, TL_FAILED_INTERNAL };
typedef struct { uint8_t kind; _Alignas(8) tl_text message; uint8_t waits; _Alignas(8) uint64_t retry_after; } tl_failure;

typedef struct { uint8_t is_error; union { tl_requirements requirements; tl_list problems; } of; } tl_configured;
typedef struct { uint8_t is_error; union { tl_answer answer; tl_failure failure; } of; } tl_answered;

enum { TL_HTTP_DENIED, TL_HTTP_CONNECT, TL_HTTP_TIMEOUT, TL_HTTP_TOO_LARGE, TL_HTTP_PROTOCOL };
typedef struct { uint8_t kind; tl_text message; } tl_http_error;
typedef struct { uint8_t is_error; union { uint32_t response; tl_http_error error; } of; } tl_sent;
typedef struct { uint8_t is_error; union { tl_list bytes; tl_http_error error; } of; } tl_piece;

#ifdef __wasm__
_Static_assert(sizeof(tl_description) == 40 && sizeof(tl_endpoint) == 100 && sizeof(tl_configured) == 36, "layout");
_Static_assert(offsetof(tl_endpoint, methods) == 48 && offsetof(tl_endpoint, credentials) == 92, "layout");
_Static_assert(sizeof(tl_group) == 64 && sizeof(tl_level) == 28 && sizeof(tl_diagnostic) == 28, "layout");
_Static_assert(offsetof(tl_answered, of) == 8 && sizeof(tl_answered) == 48 && sizeof(tl_failure) == 32, "layout");
_Static_assert(offsetof(tl_failure, message) == 8 && offsetof(tl_failure, retry_after) == 24, "layout");
_Static_assert(sizeof(tl_sent) == 16 && sizeof(tl_piece) == 16 && sizeof(tl_column) == 24, "layout");
#endif

// ---- Imports: one that is never called is not in the component ---------------------------------------------------------------

TL_IMPORT("nodes", "[method]snapshot.rows") uint32_t tl_snapshot_rows(uint32_t self);
TL_IMPORT("nodes", "[method]snapshot.label")
void tl_snapshot_label(uint32_t self, const char *key, uint32_t length, tl_column *out);
TL_IMPORT("nodes", "[method]snapshot.annotation")
void tl_snapshot_annotation(uint32_t self, const char *key, uint32_t length, tl_column *out);
TL_IMPORT("nodes", "[method]snapshot.names") void tl_snapshot_names(uint32_t self, tl_packed *out);
TL_IMPORT("nodes", "[method]snapshot.find")
void tl_snapshot_find(uint32_t self, const char *text, uint32_t length, const void *ends, uint32_t count, tl_list *out);
TL_IMPORT("nodes", "[resource-drop]snapshot") void tl_snapshot_drop(uint32_t self);

TL_IMPORT("http", "send")
void tl_http_send(const char *endpoint, uint32_t endpoint_length, uint32_t method, const char *path, uint32_t path_length,
                  const void *headers, uint32_t headers_count, uint32_t has_body, const void *body, uint32_t body_length,
                  tl_sent *out);
TL_IMPORT("http", "[method]response.status") uint32_t tl_response_status(uint32_t self);
TL_IMPORT("http", "[method]response.headers") void tl_response_headers(uint32_t self, tl_list *out);
TL_IMPORT("http", "[method]response.read") void tl_response_read(uint32_t self, uint32_t max, tl_piece *out);
TL_IMPORT("http", "[resource-drop]response") void tl_response_drop(uint32_t self);

enum { TL_DEBUG, TL_INFO, TL_WARN, TL_ERROR };
TL_IMPORT("log", "write") void tl_log_write(uint32_t level, const char *text, uint32_t length);

// ---- Memory -------------------------------------------------------------------------------------------------------------

#ifdef __wasm__
extern unsigned char __heap_base;
static uintptr_t tl_heap;

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  char *a = to;
  const char *b = from;
  while (size--) *a++ = *b++;
  return to;
}
void *memset(void *to, int value, size_t size) {
  char *a = to;
  while (size--) *a++ = (char)value;
  return to;
}
int memcmp(const void *left, const void *right, size_t size) {
  const unsigned char *a = left, *b = right;
  for (; size; size--, a++, b++)
    if (*a != *b) return *a < *b ? -1 : 1;
  return 0;
}

// What the host writes arguments and answers into. Memory behind the heap is zero, and none is used twice.
__attribute__((export_name("cabi_realloc"))) void *tl_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (!tl_heap) tl_heap = (uintptr_t)&__heap_base;
  uintptr_t at = (tl_heap + align - 1) & ~(uintptr_t)(align - 1);
  if (size > UINT32_MAX - at) __builtin_trap();
  uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
  if (at + size > have && __builtin_wasm_memory_grow(0, ((at + size - have - 1) >> 16) + 1) == (size_t)-1)
    __builtin_trap();
  tl_heap = at + size;
  if (old_size) memcpy((void *)at, old, old_size);
  return (void *)at;
}
#else
#include <stdlib.h>
#include <string.h>
#endif

// Room for so many things of a size, all zero.
static TL_UNUSED void *tl_new(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count ? count : 1, size, &bytes)) __builtin_trap();
#ifdef __wasm__
  return tl_realloc(0, 0, 8, bytes);
#else
  void *room = calloc(1, bytes);
  if (!room) abort();
  return room;
#endif
}

// Adds a thing, all zero, to the end of a list. The room doubles: it is full when the length is a power of two.
static TL_UNUSED void *tl_add(tl_list *list, size_t size) {
  uint32_t length = list->length;
  if (!(length & (length - 1)) || !length) {
    void *room = tl_new(length ? (size_t)length * 2 : 1, size);
    if (length) memcpy(room, list->at, length * size);
    list->at = room;
  }
  list->length = length + 1;
  return (char *)list->at + length * size;
}
#define TL_ADD(list, type) ((type *)tl_add(&(list), sizeof(type)))
#define TL_AT(list, type, index) (((type *)(list).at)[index])

// ---- Texts --------------------------------------------------------------------------------------------------------------

// A text between quotes, as a value.
#define TL_TEXT(literal) ((tl_text){(literal), sizeof(literal) - 1})

static TL_UNUSED int tl_compare(tl_text a, tl_text b) {
  uint32_t both = a.length < b.length ? a.length : b.length;
  int order = both ? memcmp(a.at, b.at, both) : 0;
  return order ? order : a.length < b.length ? -1 : a.length > b.length;
}
static TL_UNUSED bool tl_same(tl_text a, tl_text b) { return tl_compare(a, b) == 0; }

static TL_UNUSED tl_text tl_join(tl_text a, tl_text b) {
  char *room = tl_new((size_t)a.length + b.length, 1);
  if (a.length) memcpy(room, a.at, a.length);
  if (b.length) memcpy(room + a.length, b.at, b.length);
  return (tl_text){room, a.length + b.length};
}

static TL_UNUSED tl_text tl_number(uint32_t number) {
  char *room = tl_new(10, 1), *at = room + 10;
  do *--at = (char)('0' + number % 10);
  while (number /= 10);
  return (tl_text){at, (uint32_t)(room + 10 - at)};
}

// Entry i of a packed text.
static TL_UNUSED tl_text tl_entry(const tl_packed *packed, uint32_t i) {
  uint32_t from = i ? TL_AT(packed->ends, uint32_t, i - 1) : 0;
  return (tl_text){packed->text.at + from, TL_AT(packed->ends, uint32_t, i) - from};
}

static TL_UNUSED void tl_log(uint32_t level, tl_text text) { tl_log_write(level, text.at, text.length); }

// ---- JSON ---------------------------------------------------------------------------------------------------------------

enum { TL_NULL, TL_FALSE, TL_TRUE, TL_NUMBER, TL_STRING, TL_ARRAY, TL_OBJECT };
// A value; those inside of it are a chain, and have a key where it is an object.
typedef struct tl_json {
  uint8_t kind;
  tl_text key, text;
  struct tl_json *first, *next;
} tl_json;

// Deeper documents are refused: reading one costs the stack of WebAssembly.
#define TL_DEPTH 64

typedef struct { const char *at, *end; } tl_reader;

static TL_UNUSED bool tl_is_utf8(tl_text text) {
  const unsigned char *at = (const unsigned char *)text.at, *end = at + text.length;
  while (at < end) {
    unsigned char c = *at++;
    uint32_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
    if (more == 4 || (uint32_t)(end - at) < more) return false;
    // Neither a longer form of a shorter one, nor a half of a pair, nor more than there are characters.
    if (more && ((c == 0xe0 && *at < 0xa0) || (c == 0xed && *at > 0x9f) || (c == 0xf0 && *at < 0x90) ||
                 (c == 0xf4 && *at > 0x8f)))
      return false;
    for (; more; more--)
      if ((*at++ & 0xc0) != 0x80) return false;
  }
  return true;
}

static TL_UNUSED void tl_json_blank(tl_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static TL_UNUSED bool tl_json_sign(tl_reader *r, char sign) {
  tl_json_blank(r);
  if (r->at == r->end || *r->at != sign) return false;
  r->at++;
  return true;
}

static TL_UNUSED bool tl_json_word(tl_reader *r, tl_text word) {
  if ((size_t)(r->end - r->at) < word.length || memcmp(r->at, word.at, word.length)) return false;
  r->at += word.length;
  return true;
}

// Four hexadecimal digits.
static TL_UNUSED bool tl_json_hex(tl_reader *r, uint32_t *out) {
  if (r->end - r->at < 4) return false;
  *out = 0;
  for (int i = 0; i < 4; i++) {
    char c = *r->at++;
    uint32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
    if (digit == 16) return false;
    *out = *out * 16 + digit;
  }
  return true;
}

static TL_UNUSED char *tl_json_put(char *to, uint32_t point) {
  if (point < 0x80) return *to++ = (char)point, to;
  if (point < 0x800) return *to++ = (char)(0xc0 | point >> 6), *to++ = (char)(0x80 | (point & 0x3f)), to;
  if (point < 0x10000)
    *to++ = (char)(0xe0 | point >> 12);
  else
    *to++ = (char)(0xf0 | point >> 18), *to++ = (char)(0x80 | (point >> 12 & 0x3f));
  *to++ = (char)(0x80 | (point >> 6 & 0x3f));
  *to++ = (char)(0x80 | (point & 0x3f));
  return to;
}

static TL_UNUSED bool tl_json_string(tl_reader *r, tl_text *out) {
  if (!tl_json_sign(r, '"')) return false;
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' && close + 1 < r->end ? 2 : 1;
  if (close >= r->end) return false;
  // No escape is shorter than what it means.
  char *room = tl_new((size_t)(close - r->at), 1), *to = room;
  while (r->at < close) {
    unsigned char c = (unsigned char)*r->at++;
    if (c < 0x20) return false;
    if (c != '\\') {
      *to++ = (char)c;
      continue;
    }
    uint32_t point, low;
    switch (*r->at++) {
      case '"': *to++ = '"'; break;
      case '\\': *to++ = '\\'; break;
      case '/': *to++ = '/'; break;
      case 'b': *to++ = '\b'; break;
      case 'f': *to++ = '\f'; break;
      case 'n': *to++ = '\n'; break;
      case 'r': *to++ = '\r'; break;
      case 't': *to++ = '\t'; break;
      case 'u':
        if (!tl_json_hex(r, &point) || (point >= 0xdc00 && point < 0xe000)) return false;
        if (point >= 0xd800 && point < 0xdc00) {
          if (!tl_json_word(r, TL_TEXT("\\u")) || !tl_json_hex(r, &low) || low < 0xdc00 || low >= 0xe000) return false;
          point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
        to = tl_json_put(to, point);
        break;
      default: return false;
    }
  }
  // The digits of the last escape may have been taken from behind the end.
  if (r->at != close) return false;
  r->at++;
  *out = (tl_text){room, (uint32_t)(to - room)};
  return true;
}

static TL_UNUSED bool tl_json_digits(tl_reader *r) {
  const char *begin = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > begin;
}

static TL_UNUSED bool tl_json_number(tl_reader *r, tl_text *out) {
  const char *begin = r->at;
  tl_json_word(r, TL_TEXT("-"));
  if (!tl_json_word(r, TL_TEXT("0")) && !tl_json_digits(r)) return false;
  if (tl_json_word(r, TL_TEXT(".")) && !tl_json_digits(r)) return false;
  if (tl_json_word(r, TL_TEXT("e")) || tl_json_word(r, TL_TEXT("E"))) {
    if (!tl_json_word(r, TL_TEXT("+"))) tl_json_word(r, TL_TEXT("-"));
    if (!tl_json_digits(r)) return false;
  }
  *out = (tl_text){begin, (uint32_t)(r->at - begin)};
  return true;
}

static TL_UNUSED bool tl_json_value(tl_reader *r, tl_json *out, int depth) {
  tl_json_blank(r);
  if (r->at == r->end || depth > TL_DEPTH) return false;
  char begin = *r->at;
  if (begin == '"') return out->kind = TL_STRING, tl_json_string(r, &out->text);
  if (begin != '[' && begin != '{') {
    if (tl_json_word(r, TL_TEXT("null"))) return out->kind = TL_NULL, true;
    if (tl_json_word(r, TL_TEXT("true"))) return out->kind = TL_TRUE, true;
    if (tl_json_word(r, TL_TEXT("false"))) return out->kind = TL_FALSE, true;
    return out->kind = TL_NUMBER, tl_json_number(r, &out->text);
  }
  out->kind = begin == '[' ? TL_ARRAY : TL_OBJECT;
  char end = begin == '[' ? ']' : '}';
  r->at++;
  if (tl_json_sign(r, end)) return true;
  for (tl_json **last = &out->first;; last = &(*last)->next) {
    *last = tl_new(1, sizeof(tl_json));
    if (begin == '{' && !(tl_json_string(r, &(*last)->key) && tl_json_sign(r, ':'))) return false;
    if (!tl_json_value(r, *last, depth + 1)) return false;
    if (tl_json_sign(r, end)) return true;
    if (!tl_json_sign(r, ',')) return false;
  }
}

// A whole document; nothing where the text is not JSON, is not UTF-8 or stops in the middle.
static TL_UNUSED const tl_json *tl_json_read(tl_text text) {
  tl_reader reader = {text.at, text.at + text.length};
  tl_json *value = tl_new(1, sizeof(tl_json));
  if (!tl_is_utf8(text) || !tl_json_value(&reader, value, 0)) return NULL;
  tl_json_blank(&reader);
  return reader.at == reader.end ? value : NULL;
}

// A member of an object; nothing where there is none.
static TL_UNUSED const tl_json *tl_json_member(const tl_json *object, tl_text key) {
  if (object->kind != TL_OBJECT) return NULL;
  for (const tl_json *member = object->first; member; member = member->next)
    if (tl_same(member->key, key)) return member;
  return NULL;
}

// The text of a member; empty where there is none, or where it is no text.
static TL_UNUSED tl_text tl_json_text(const tl_json *object, tl_text key) {
  const tl_json *member = tl_json_member(object, key);
  return member && member->kind == TL_STRING ? member->text : (tl_text){"", 0};
}

// ---- The plugin ---------------------------------------------------------------------------------------------------------

// What a round is given.
typedef struct {
  const tl_json *config;
  uint32_t nodes; // for tl_snapshot_…
  uint64_t time;  // milliseconds since 1970
  tl_text state;
} tl_input;

// Which plugin it is. Constant.
static tl_description describe(void);
// What a configuration needs; or everything that is wrong with it, each with its path.
static void configure(const tl_json *config, tl_requirements *requirements, tl_list *problems);
// One round. Without tl_fail the answer is the topology.
static void discover(const tl_input *input, tl_answered *answered);

static TL_UNUSED void tl_problem_at(tl_list *problems, tl_text path, tl_text message) {
  *TL_ADD(*problems, tl_problem) = (tl_problem){path, message};
}

static TL_UNUSED void tl_fail(tl_answered *answered, uint8_t kind, tl_text message) {
  memset(answered, 0, sizeof *answered);
  answered->is_error = 1;
  answered->of.failure.kind = kind;
  answered->of.failure.message = message;
}

static TL_UNUSED uint32_t tl_level_of(tl_topology *topology, uint32_t tier, tl_text name) {
  *TL_ADD(topology->levels, tl_level) = (tl_level){.tier = tier, .name = {1, name}};
  return topology->levels.length - 1;
}

// A group without members yet. Its id is 1 to 512 bytes, unique, and the same in every round.
static TL_UNUSED tl_group *tl_group_of(tl_topology *topology, uint32_t level, tl_text id) {
  tl_group *group = TL_ADD(topology->groups, tl_group);
  group->id = id;
  group->level = level;
  return group;
}

static TL_UNUSED void tl_diagnose(tl_topology *topology, tl_text code, tl_text detail) {
  *TL_ADD(topology->diagnostics, tl_diagnostic) = (tl_diagnostic){.code = code, .detail = detail};
}

// The nodes of each value of a column: a list of rows per entry of its dictionary.
static TL_UNUSED tl_list *tl_by_value(const tl_column *column) {
  tl_list *rows = tl_new(column->dictionary.ends.length, sizeof(tl_list));
  for (uint32_t row = 0; row < column->codes.length; row++) {
    uint32_t code = TL_AT(column->codes, uint32_t, row);
    if (code) *TL_ADD(rows[code - 1], uint32_t) = row;
  }
  return rows;
}

// The rows of names, plus one; 0 where there is no such node. A list of uint32_t.
static TL_UNUSED tl_list tl_find(uint32_t nodes, const tl_text *names, uint32_t count) {
  size_t length = 0;
  for (uint32_t i = 0; i < count; i++) length += names[i].length;
  char *text = tl_new(length, 1), *to = text;
  uint32_t *ends = tl_new(count, sizeof(uint32_t));
  for (uint32_t i = 0; i < count; i++) {
    if (names[i].length) memcpy(to, names[i].at, names[i].length);
    to += names[i].length;
    ends[i] = (uint32_t)(to - text);
  }
  tl_list rows = {0};
  tl_snapshot_find(nodes, text, (uint32_t)length, ends, count, &rows);
  return rows;
}

// The body of an answer, read to its end. On false the failure is in `answered`.
static TL_UNUSED bool tl_fetch(tl_text endpoint, tl_text path, tl_answered *answered, tl_text *body) {
  static const char *const words[] = {"", "no connection: ", "out of time: ", "too large: ", "protocol error: "};
  static const uint8_t lengths[] = {0, 15, 13, 11, 16};
  tl_pair accept = {TL_TEXT("accept"), TL_TEXT("application/json")};
  tl_sent sent = {0};
  tl_http_send(endpoint.at, endpoint.length, TL_GET, path.at, path.length, &accept, 1, 0, NULL, 0, &sent);
  if (sent.is_error) {
    tl_http_error error = sent.of.error;
    uint8_t kind = error.kind == TL_HTTP_DENIED ? TL_FAILED_DENIED : TL_FAILED_UPSTREAM;
    return tl_fail(answered, kind, tl_join((tl_text){words[error.kind], lengths[error.kind]}, error.message)), false;
  }
  uint32_t response = sent.of.response, status = tl_response_status(response);
  if (status < 200 || status > 299) {
    uint8_t kind = status == 401 || status == 403 ? TL_FAILED_UNAUTHORIZED : TL_FAILED_UPSTREAM;
    tl_list headers = {0};
    tl_response_headers(response, &headers);
    tl_fail(answered, kind, tl_join(TL_TEXT("status "), tl_number(status)));
    for (uint32_t i = 0; kind == TL_FAILED_UPSTREAM && i < headers.length; i++) {
      tl_text value = TL_AT(headers, tl_pair, i).value;
      uint64_t seconds = 0;
      uint32_t digits = 0;
      while (digits < value.length && digits < 9 && value.at[digits] >= '0' && value.at[digits] <= '9')
        seconds = seconds * 10 + (uint64_t)(value.at[digits++] - '0');
      if (digits && digits == value.length && tl_same(TL_AT(headers, tl_pair, i).key, TL_TEXT("retry-after"))) {
        answered->of.failure.waits = 1;
        answered->of.failure.retry_after = seconds * 1000;
      }
    }
    tl_response_drop(response);
    return false;
  }
  tl_list bytes = {"", 0};
  size_t room = 0;
  for (;;) {
    tl_piece piece = {0};
    tl_response_read(response, 1 << 18, &piece);
    if (piece.is_error) {
      tl_http_error error = piece.of.error;
      tl_fail(answered, TL_FAILED_UPSTREAM, tl_join((tl_text){words[error.kind], lengths[error.kind]}, error.message));
      tl_response_drop(response);
      return false;
    }
    uint32_t length = piece.of.bytes.length;
    if (!length) break;
    if ((size_t)bytes.length + length > room) {
      room = ((size_t)bytes.length + length) * 2;
      char *larger = tl_new(room, 1);
      if (bytes.length) memcpy(larger, bytes.at, bytes.length);
      bytes.at = larger;
    }
    memcpy((char *)bytes.at + bytes.length, piece.of.bytes.at, length);
    bytes.length += length;
  }
  tl_response_drop(response);
  *body = (tl_text){bytes.at, bytes.length};
  return true;
}

// ---- Exports: they read the configuration, and give the nodes back to the host ---------------------------------------------------

static TL_UNUSED void tl_configure(tl_text config, tl_configured *out) {
  tl_requirements requirements = {0};
  tl_list problems = {0};
  const tl_json *read = tl_json_read(config);
  if (!read)
    tl_problem_at(&problems, TL_TEXT(""), TL_TEXT("the configuration is not JSON"));
  else if (read->kind != TL_OBJECT)
    tl_problem_at(&problems, TL_TEXT(""), TL_TEXT("the configuration must be an object"));
  else
    configure(read, &requirements, &problems);
  out->is_error = problems.length > 0;
  if (out->is_error)
    out->of.problems = problems;
  else
    out->of.requirements = requirements;
}

static TL_UNUSED void tl_discover(tl_text config, uint32_t nodes, uint64_t time, tl_text state, tl_answered *out) {
  tl_input input = {tl_json_read(config), nodes, time, state};
  if (!input.config || input.config->kind != TL_OBJECT) {
    tl_fail(out, TL_FAILED_CONFIG, TL_TEXT("the configuration must be a JSON object"));
    return;
  }
  out->of.answer.outcome = 1;
  discover(&input, out);
}

#ifdef __wasm__
TL_EXPORT("describe") tl_description *tl_export_describe(void) {
  tl_description *out = tl_new(1, sizeof *out);
  *out = describe();
  return out;
}

TL_EXPORT("configure") tl_configured *tl_export_configure(const char *config, uint32_t length) {
  tl_configured *out = tl_new(1, sizeof *out);
  tl_configure((tl_text){config, length}, out);
  return out;
}

TL_EXPORT("discover")
tl_answered *tl_export_discover(const char *config, uint32_t length, uint32_t nodes, uint64_t time, const char *state,
                                uint32_t state_length) {
  tl_answered *out = tl_new(1, sizeof *out);
  tl_discover((tl_text){config, length}, nodes, time, (tl_text){state, state_length}, out);
  // The nodes are lent for this call: one that keeps them ends with a trap.
  tl_snapshot_drop(nodes);
  return out;
}
#endif

#endif
