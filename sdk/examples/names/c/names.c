// Racks out of the names of nodes, in C without a C library.
//
// The same discoverer as ../rust: `gpu-{rack}-*` says which part of a name is the rack. Everything between the marks ABI is the
// canonical ABI of topoloom:discovery@0.1.0, as docs/vendors/other-languages.md describes it, for what this plugin uses.

#include <stddef.h>
#include <stdint.h>

// ---- ABI ----------------------------------------------------------------------------------------------------------------

typedef uint32_t u32;
typedef struct { const char *at; u32 length; } text;
typedef struct { void *at; u32 length; } list;
typedef struct { text all; list ends; } packed;

#define EXPORT(name) __attribute__((export_name("topoloom:discovery/discoverer@0.1.0#" name)))
#define IMPORT(name) __attribute__((import_module("topoloom:discovery/nodes@0.1.0"), import_name(name)))
#define TEXT(words) ((text){words, sizeof(words) - 1})

IMPORT("[method]snapshot.names") void snapshot_names(u32 nodes, packed *names);
IMPORT("[resource-drop]snapshot") void snapshot_drop(u32 nodes);

typedef struct { text name, version, vendor, summary, schema; } description;
typedef struct { text path, message; } problem;
typedef struct { uint8_t kind; u32 at_least; } trigger;
typedef struct { uint8_t is_error; union { struct { list labels, annotations, endpoints, triggers; } ok; list problems; }; } configured;
typedef struct { uint8_t is_some; text value; } maybe;
typedef struct { text id; u32 level; list labels; uint8_t members; list rows; u32 unused[2]; maybe description, fixed_name; } group;
typedef struct { u32 tier; maybe name, kind; } level;
typedef struct { text code; uint8_t subject; list rows; text detail; } diagnostic;
typedef struct {
  uint8_t is_error; u32 unused; uint8_t outcome; u32 coverage; list levels, groups, diagnostics, state;
} answer;
_Static_assert(sizeof(configured) == 36 && sizeof(group) == 64 && sizeof(level) == 28 && sizeof(diagnostic) == 28, "ABI");
_Static_assert(offsetof(answer, outcome) == 8 && offsetof(answer, levels) == 16 && sizeof(answer) == 48, "ABI");

enum { COLUMNS, NAMES, TIMER };              // trigger.kind
enum { SOURCE, ROWS, GROUP, NAME };          // diagnostic.subject
enum { UNCHANGED, TOPOLOGY };                // answer.outcome; if is_error: CONFIG, DENIED, UNAUTHORIZED, UPSTREAM, INTERNAL
enum { CONFIG };

// Every call runs in a fresh instance, so nothing is ever freed.
extern unsigned char __heap_base;
static uintptr_t next;

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (!next) next = (uintptr_t)&__heap_base;
  uintptr_t at = (next + align - 1) & ~(uintptr_t)(align - 1), have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
  if (size > UINT32_MAX - at) __builtin_trap();
  next = at + size;
  if (next > have && __builtin_wasm_memory_grow(0, (next - have + 65535) >> 16) == (size_t)-1) __builtin_trap();
  for (size_t i = 0; i < old_size && i < size; i++) ((char *)at)[i] = ((char *)old)[i];
  return (void *)at;
}

void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)value;
  return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}

static void *new(u32 count, size_t size) {
  if (count && size > UINT32_MAX / count) __builtin_trap();
  return memset(cabi_realloc(0, 0, 8, count * size), 0, count * size);
}

// ---- ABI ----------------------------------------------------------------------------------------------------------------

static int same(text a, text b) {
  if (a.length != b.length) return 0;
  for (u32 i = 0; i < a.length; i++) if (a.at[i] != b.at[i]) return 0;
  return 1;
}

static text part(text of, u32 from, u32 to) { return (text){of.at + from, to - from}; }
static int begins(text of, text with) { return of.length >= with.length && same(part(of, 0, with.length), with); }

// ---- the configuration: {"pattern": "gpu-{rack}-*"} -------------------------------------------------------------------

typedef struct { const char *at, *end; int is_broken; } reader;

static char peek(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
  return r->at < r->end ? *r->at : 0;
}
static int take(reader *r, char c) { if (peek(r) != c) return 0; r->at++; return 1; }

// A string without escapes other than those of quotes and backslashes: no name of a node has any.
static text string(reader *r) {
  if (!take(r, '"')) { r->is_broken = 1; return (text){0, 0}; }
  char *to = new(r->end - r->at + 1, 1), *begin = to;
  while (r->at < r->end && *r->at != '"') {
    if (*r->at == '\\' && ++r->at == r->end) break;
    *to++ = *r->at++;
  }
  if (r->at == r->end) { r->is_broken = 1; return (text){0, 0}; }
  r->at++;
  return (text){begin, to - begin};
}

// A value of any kind. Brackets are counted and not matched: the host sends JSON.
static void skip(reader *r) {
  for (int depth = 0; !r->is_broken; ) {
    char c = peek(r);
    if (!c) { r->is_broken = 1; return; }
    if (c == '"') string(r);
    else if (depth == 0 && (c == ',' || c == '}')) return;
    else { depth += (c == '{' || c == '[') - (c == '}' || c == ']'); r->at++; }
  }
}

typedef struct { text before, behind; int is_open; } pattern;

// The pattern of a configuration, or its problems.
static list configuration(const char *at, u32 length, pattern *p) {
  reader r = {at, at + length, 0};
  problem *problems = new(length + 2, sizeof *problems);
  u32 count = 0;
  text words = {0, 0};
  int is_there = 0;
  if (!take(&r, '{')) r.is_broken = 1;
  while (!r.is_broken && peek(&r) != '}') {
    text key = string(&r);
    if (r.is_broken || !take(&r, ':')) { r.is_broken = 1; break; }
    if (!same(key, TEXT("pattern"))) { problems[count++] = (problem){key, TEXT("unknown key, expected pattern")}; skip(&r); }
    else if (peek(&r) == '"') { words = string(&r); is_there = 1; }
    else { problems[count++] = (problem){key, TEXT("expected a text")}; is_there = 2; skip(&r); }
    if (peek(&r) != '}' && !take(&r, ',')) r.is_broken = 1;
  }
  if (r.is_broken || !take(&r, '}') || peek(&r)) {
    problems[0] = (problem){TEXT(""), TEXT("expected a JSON object")};
    return (list){problems, 1};
  }
  const text rack = TEXT("{rack}");
  u32 found = 0, at_rack = 0, others = 0;
  for (u32 i = 0; i < words.length; i++) {
    if (begins(part(words, i, words.length), rack)) { found++; at_rack = i; i += rack.length - 1; }
    else if (words.at[i] == '{' || words.at[i] == '}' || (words.at[i] == '*' && i + 1 < words.length)) others++;
  }
  if (is_there < 2 && (found != 1 || others)) {
    problems[count++] = (problem){TEXT("pattern"), TEXT("expected one {rack}, and * only at the end")};
  }
  if (!count) {
    p->is_open = words.length > at_rack + rack.length && words.at[words.length - 1] == '*';
    p->before = part(words, 0, at_rack);
    p->behind = part(words, at_rack + rack.length, words.length - p->is_open);
  }
  return (list){problems, count};
}

// The rack in a name; nothing if the name has not the form of the pattern.
static text rack_of(const pattern *p, text name) {
  if (!begins(name, p->before)) return (text){0, 0};
  text rest = part(name, p->before.length, name.length);
  u32 longest = 0;
  while (longest < rest.length && ((rest.at[longest] >= 'a' && rest.at[longest] <= 'z') ||
         (rest.at[longest] >= 'A' && rest.at[longest] <= 'Z') || (rest.at[longest] >= '0' && rest.at[longest] <= '9'))) longest++;
  for (u32 end = longest; end > 0; end--) {
    text after = part(rest, end, rest.length);
    if (p->is_open ? begins(after, p->behind) : same(after, p->behind)) return part(rest, 0, end);
  }
  return (text){0, 0};
}

// ---- the three functions ------------------------------------------------------------------------------------------------

EXPORT("describe") description *describe(void) {
  description *d = new(1, sizeof *d);
  *d = (description){TEXT("names"), TEXT("0.1.0"), TEXT("Acme"), TEXT("Racks out of the names of nodes"),
    TEXT("{\"type\": \"object\", \"additionalProperties\": false, \"required\": [\"pattern\"], "
         "\"properties\": {\"pattern\": {\"description\": \"The form of names, as gpu-{rack}-*.\", \"type\": \"string\"}}}")};
  return d;
}

EXPORT("configure") configured *configure(const char *config, u32 length) {
  configured *result = new(1, sizeof *result);
  pattern p;
  list problems = configuration(config, length, &p);
  if (problems.length) {
    result->is_error = 1;
    result->problems = problems;
  } else {
    trigger *on_names = new(1, sizeof *on_names);
    on_names->kind = NAMES;
    result->ok.triggers = (list){on_names, 1};
  }
  return result;
}

// Racks by a hash of their names: which group a rack is, plus one.
typedef struct { u32 *slots, mask; group *groups; u32 count; } racks;

static u32 rack_number(racks *all, text rack) {
  u32 hash = 2166136261u;
  for (u32 i = 0; i < rack.length; i++) hash = (hash ^ (unsigned char)rack.at[i]) * 16777619u;
  for (;; hash++) {
    u32 *slot = &all->slots[hash & all->mask];
    if (!*slot) { *slot = ++all->count; all->groups[all->count - 1].id = rack; }
    if (same(all->groups[*slot - 1].id, rack)) return *slot;
  }
}

EXPORT("discover") answer *discover(const char *config, u32 length, u32 nodes, uint64_t time, void *state, u32 state_length) {
  (void)time, (void)state, (void)state_length;
  answer *result = new(1, sizeof *result);
  pattern p;
  if (configuration(config, length, &p).length) {   // never: the host asks `configure` first
    snapshot_drop(nodes);
    result->is_error = 1;
    result->outcome = CONFIG;
    result->levels = (list){"no pattern", 10};      // a failure has its message where an answer has its levels
    return result;
  }
  packed names;
  snapshot_names(nodes, &names);
  snapshot_drop(nodes);                             // a borrowed handle has to be dropped before the call returns
  u32 rows = names.ends.length, *ends = names.ends.at, *number = new(rows, sizeof(u32)), size = 16;
  while (size < 2 * rows) size *= 2;
  racks all = {new(size, sizeof(u32)), size - 1, new(rows + 1, sizeof(group)), 0};
  u32 *sizes = new(rows + 1, sizeof(u32));
  for (u32 row = 0; row < rows; row++) {
    text rack = rack_of(&p, part(names.all, row ? ends[row - 1] : 0, ends[row]));
    if (rack.length) number[row] = rack_number(&all, rack);
    sizes[number[row]]++;                     // 0: without a rack
  }
  u32 **members = new(all.count + 1, sizeof(u32 *));
  for (u32 i = 0; i <= all.count; i++) members[i] = new(sizes[i], sizeof(u32));
  for (u32 row = rows; row-- > 0; ) members[number[row]][--sizes[number[row]]] = row;
  for (u32 row = 0; row < rows; row++) sizes[number[row]]++;
  for (u32 i = 1; i <= all.count; i++) all.groups[i - 1].rows = (list){members[i], sizes[i]};
  level *rack_level = new(1, sizeof *rack_level);
  *rack_level = (level){.tier = 1, .name = {1, TEXT("rack")}};
  result->outcome = TOPOLOGY;                 // complete: coverage is 0
  result->levels = (list){rack_level, 1};
  result->groups = (list){all.groups, all.count};
  if (sizes[0]) {
    diagnostic *d = new(1, sizeof *d);
    *d = (diagnostic){TEXT("name-without-rack"), ROWS, {members[0], sizes[0]}, TEXT("the name has not the form of the pattern")};
    result->diagnostics = (list){d, 1};
  }
  return result;
}
