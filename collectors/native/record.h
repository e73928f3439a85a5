// The spool: what a recorded process appends to its file. docs/spool-format.md describes it in prose;
// collectors/spool/layout.py is the same layout for the reader. A change here is a change there.
#pragma once

#include <cstdint>

namespace cctrace {

constexpr uint32_t kSpoolMagic = 0x50534343;  // "CCSP"
constexpr uint32_t kSpoolVersion = 1;

enum class Kind : uint8_t {
  call = 1,        // one host call of the driver API, seen by the interposer
  mark = 2,        // a named range of host time (NVTX or the hook)
  stamp = 3,       // one %globaltimer reading from inside the GPU
  binding = 4,     // from now on `object` (an executable graph) carries the stamps tagged `bytes`
  stream = 5,      // a stream was created; its handle may be one that was used before
  collective = 6,  // one host call of NCCL that moves data

  kernel = 32,  // CUPTI activity records
  graph = 33,
  copy = 34,
  memset = 35,
  sync = 36,
  overhead = 37,
  rotation = 38,
  host_call = 39,  // runtime or driver call as CUPTI saw it; only used to join GPU rows to `call` records

  clock = 200,      // CLOCK_MONOTONIC and CLOCK_REALTIME read together
  gpu_clock = 201,  // CLOCK_MONOTONIC and %globaltimer read together
  loss = 202,       // records that were not kept: `name` says why, `object` how many
  state =
      203,    // a fact about the collector: `name` is the key, `link` the value's string, `object` its number
  tax = 204,  // cost of recording one call: `name` says which, `object` in picoseconds
  header = 254,
  string = 255,  // `name` is the id, `bytes` the length; the text follows in whole blocks
};

// What a host call does; the reader maps it to the trace's `kind` and `operation`.
enum class Operation : uint8_t {
  none = 0,
  kernel = 1,
  graph = 2,
  copy = 3,
  memset = 4,
  event_record = 5,
  stream_wait = 6,
  host_function = 7,
  memory_operation = 8,
  prefetch = 9,
  stream_alloc = 10,
  unknown = 11,
  stream_sync = 16,
  event_sync = 17,
  context_sync = 18,
  query = 19,
  host_alloc = 24,
  host_free = 25,
  host_register = 26,
  host_unregister = 27,
  device_alloc = 28,
  device_free = 29,
  capture_begin = 40,
  capture_end = 41,
  graph_build = 42,
};

enum Flag : uint8_t {
  kCaptured = 1,     // call: recorded into a graph, nothing was submitted
  kSynchronous = 2,  // call: a copy or memset that by contract returns when the GPU is done
  kStepMark = 4,     // mark: one scheduler iteration, set by the hook
  kNvtx = 8,         // mark: came through NVTX (otherwise through the hook)
  kStampEnd = 16,    // stamp: last node (otherwise first)
  kEagerStamp = 32,  // stamp: around a sampled eager step (otherwise inside a graph)
  kAsync = 64,       // CUPTI copy: asynchronous
};

enum Memory : uint8_t { kMemUnknown = 0, kPageable = 1, kPinned = 2, kDevice = 3, kArray = 4, kManaged = 5 };
enum CopyKind : uint8_t { kNoCopy = 0, kH2D = 1, kD2H = 2, kD2D = 3, kH2H = 4, kP2P = 5, kOtherCopy = 6 };

constexpr uint16_t kNoDevice = 0xffff;

// Which fields a kind uses, and how:
//   call       tid start end stream bytes result device memory copy_kind operation; name = API symbol;
//              object = function, executable graph, event, graph or host pointer; link = string id of the
//              kernel's symbol
//   mark       tid start end; name = label; link = NVTX domain
//   stamp      start = %globaltimer ns; object = tag; bytes = index in the ring; device
//   binding    start; object = executable graph; bytes = tag
//   stream     start; object = handle; device
//   collective tid start end stream bytes result device; name = NCCL's function; object = communicator;
//              link = calls of the communicator before it; operation = ncclDataType_t; memory, copy_kind =
//              low and high byte of the number of ranks
//   kernel     start end device stream; name = symbol; link = correlation; tid = graph id; object = node id
//   graph      start end device stream; link = correlation; tid = graph id
//   copy       as kernel; bytes memory copy_kind        memset: as kernel; bytes
//   sync       start end stream; operation; link = correlation
//   overhead   start end tid; name = what
//   rotation   start; device; name = what; object = channel
//   host_call  tid start end; link = correlation; name = API
//   clock      start = MONOTONIC; end = REALTIME; object = MONOTONIC_RAW; bytes = read gap in ns
//   gpu_clock  start = MONOTONIC; object = %globaltimer; bytes = read gap in ns; device
//   header     start = MONOTONIC; end = REALTIME; tid = pid; object = parent pid; link = magic; bytes =
//   version;
//              stream = MONOTONIC when this process image was loaded or forked
struct Record {
  Kind kind;
  uint8_t flags;
  Operation operation;
  uint8_t reserved;
  uint32_t tid;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t stream;
  uint64_t bytes;
  uint64_t object;
  uint32_t link;
  uint32_t name;
  uint16_t device;
  uint8_t memory;  // source | destination << 4
  uint8_t copy_kind;
  int32_t result;
};
static_assert(sizeof(Record) == 64, "the reader relies on 64-byte records");

// One page in the spool folder, mapped by the recorder and by every recorded process. All times
// CLOCK_MONOTONIC ns.
struct Control {
  uint32_t magic;        // kControlMagic once the page is ready
  uint32_t stopped;      // != 0: nothing more is recorded (limit reached, or told so)
  uint64_t start_at_ns;  // record from here on; 0: at once
  uint64_t stop_at_ns;   // and until here; 0: no limit
  uint64_t steps_limit;  // stop after so many step marks; 0: no limit
  uint64_t steps_seen;
  uint64_t bytes_limit;  // stop when the spools together hold so many bytes; 0: no limit
  uint64_t bytes_written;
};
static_assert(sizeof(Control) == 56, "collectors/record/control.py relies on this layout");
constexpr uint32_t kControlMagic = 0x43434354;  // "TCCC"

}  // namespace cctrace
