#include "labels.h"

#include <fnmatch.h>
#include <pthread.h>
#include <string.h>

#include <atomic>
#include <mutex>
#include <string>

#include "config.h"
#include "spool.h"

namespace cctrace {
namespace labels {
namespace {

// A thread uses a few dozen labels; two that share a slot only cost a look-up.
constexpr size_t kSlots = 128;
// Longer labels (some carry all the shapes of an operator) are looked up each time.
constexpr size_t kMaxCached = 112;

struct Slot {
  uint32_t generation = 0;
  Label label;
  char text[kMaxCached];
};

// On the heap: thread-local arrays of a preloaded library would come out of the stack of every thread of the
// program.
thread_local Slot* t_slots = nullptr;

void free_slots(void* slots) {
  delete[] static_cast<Slot*>(slots);
  t_slots = nullptr;
}

Slot* slots_of_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t fresh;
    pthread_key_create(&fresh, free_slots);
    return fresh;
  }();
  if (!t_slots) {
    t_slots = new Slot[kSlots];
    pthread_setspecific(key, t_slots);
  }
  return t_slots;
}

// A forked child writes a spool of its own, in which the ids of the parent mean nothing.
std::atomic<uint32_t> g_generation{1};

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { g_generation++; }); });
}

uint64_t hash(const char* text, size_t length) {
  uint64_t h = 0xcbf29ce484222325u;  // FNV-1a
  for (size_t i = 0; i < length; i++) h = (h ^ static_cast<uint8_t>(text[i])) * 0x100000001b3u;
  return h;
}

Label look_up(const char* text) {
  Label label;
  label.id = spool::intern(text);
  label.step = config().step_pattern && matches(config().step_pattern, text);
  return label;
}

// Encodes one code point; returns the bytes written (0: not a character).
size_t encode(uint32_t c, char* out) {
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  if (c < 0x800) {
    out[0] = static_cast<char>(0xc0 | c >> 6);
    out[1] = static_cast<char>(0x80 | (c & 0x3f));
    return 2;
  }
  if (c < 0x10000) {
    if (c >= 0xd800 && c < 0xe000) return 0;  // half of a surrogate pair
    out[0] = static_cast<char>(0xe0 | c >> 12);
    out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out[2] = static_cast<char>(0x80 | (c & 0x3f));
    return 3;
  }
  if (c >= 0x110000) return 0;
  out[0] = static_cast<char>(0xf0 | c >> 18);
  out[1] = static_cast<char>(0x80 | (c >> 12 & 0x3f));
  out[2] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
  out[3] = static_cast<char>(0x80 | (c & 0x3f));
  return 4;
}

}  // namespace

Label find(const char* text) {
  if (!text) return Label();
  const size_t length = strnlen(text, kMaxCached);
  if (length == kMaxCached) return look_up(text);
  Slot& slot = slots_of_thread()[hash(text, length) % kSlots];
  const uint32_t generation = g_generation;
  if (slot.generation != generation || strcmp(slot.text, text) != 0) {
    watch_forks();
    slot.label = look_up(text);
    slot.generation = generation;
    memcpy(slot.text, text, length + 1);
  }
  return slot.label;
}

bool matches(const char* patterns, const char* text) {
  std::string pattern;
  for (const char* p = patterns; *p;) {
    const size_t length = strcspn(p, ";");
    pattern.assign(p, length);
    if (!pattern.empty() && fnmatch(pattern.c_str(), text, 0) == 0) return true;
    p += length + (p[length] == ';');
  }
  return false;
}

void to_utf8(const wchar_t* text, char* out, size_t size) {
  size_t used = 0;
  for (; text && *text; text++) {
    char bytes[4];
    const size_t n = encode(static_cast<uint32_t>(*text), bytes);
    if (used + n >= size) break;
    memcpy(out + used, bytes, n);
    used += n;
  }
  out[used] = 0;
}

}  // namespace labels
}  // namespace cctrace
