// Labels of ranges: the same few texts, over and over, so each thread remembers what it looked up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cctrace {
namespace labels {

struct Label {
  uint32_t id = 0;    // string id in the spool
  bool step = false;  // matches one of the step patterns of the configuration
};

// Looks a text up (the spool must be open). Texts longer than the spool keeps are cut.
Label find(const char* text);

// True if `text` matches one of the fnmatch patterns in `patterns`, which ';' separates.
bool matches(const char* patterns, const char* text);

// Writes `text` as UTF-8 into `out`, ended by a zero; cut at the last whole character that fits.
void to_utf8(const wchar_t* text, char* out, size_t size);

}  // namespace labels
}  // namespace cctrace
