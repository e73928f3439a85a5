// The append-only file of one process image, and the strings it refers to. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "record.h"

namespace cctrace {
namespace spool {

// Creates <spool>/<pid>-<monotonic ns>.spool and writes its header. False (and one message) if that is
// impossible.
bool open(uint64_t image_start_ns);

// True between open() and the first failed write, in the process that opened it.
bool is_open();

// Appends whole records. After a failed write everything is dropped and counted.
void write(const Record* records, size_t count);

// Id of a text in this file, written on first use; 0 for null. Texts longer than 4096 bytes are cut.
uint32_t intern(const char* text);

// A fact about the collector: it ends up in the metadata of the trace.
void note_state(const char* key, const char* value, uint64_t number = 0);

// Records that were not kept.
void note_loss(const char* reason, uint64_t count);

// Writes the name that the process has now, if it is new: servers set it late. Only from the writer thread
// and open().
void note_process_name();

// Forgets the file in a forked child, without touching the parent's.
void abandon();

}  // namespace spool
}  // namespace cctrace
