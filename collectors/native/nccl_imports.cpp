#include "nccl_imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"
#include "nccl.h"
#include "shared.h"

namespace cctrace {
namespace nccl {
namespace {

constexpr char kPrefix[] = "nccl";

struct Range {
  uintptr_t begin = 0, end = 0;
  bool contains(uintptr_t address) const { return address >= begin && address < end; }
};

// One import of a loaded object.
struct Import {
  const char* symbol;
  void** slot;
  bool is_call;       // bound at the first call, unlike data
  bool is_undefined;  // the object itself has no such function
};

// One loaded object.
struct Object {
  std::string path;  // "" for the program itself
  uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  Range all;
  Range read_only;              // once it was relocated
  std::vector<Range> writable;  // apart from that
  std::vector<Import> imports;  // of NCCL
};

// What its dynamic section points to.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  std::pair<const ElfW(Rela)*, size_t> relocations[2] = {};  // of data; of calls
};

struct Loaded {
  unsigned long long added = 0, removed = 0;
};

// How many objects were ever loaded and unloaded.
Loaded loaded() {
  Loaded counts;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<Loaded*>(out) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &counts);
  return counts;
}

uintptr_t page_bytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

uintptr_t page_of(uintptr_t address) { return address & ~(page_bytes() - 1); }

Object object_of(const dl_phdr_info& info) {
  Object object;
  object.path = info.dlpi_name ? info.dlpi_name : "";
  object.base = info.dlpi_addr;
  object.all.begin = UINTPTR_MAX;
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr) & header = info.dlpi_phdr[i];
    const uintptr_t begin = object.base + header.p_vaddr, end = begin + header.p_memsz;
    if (header.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    // Only whole pages of it are protected.
    if (header.p_type == PT_GNU_RELRO) object.read_only = {page_of(begin), page_of(end)};
    if (header.p_type != PT_LOAD) continue;
    if (header.p_flags & PF_W) object.writable.push_back({begin, end});
    if (begin < object.all.begin) object.all.begin = begin;
    if (end > object.all.end) object.all.end = end;
  }
  return object;
}

Tables tables_of(const Object& object) {
  Tables tables;
  // The loader turns these offsets into addresses, except in objects that it cannot write.
  const auto address = [&object](const ElfW(Dyn) & entry) {
    const uintptr_t value = entry.d_un.d_ptr;
    return value < object.base ? value + object.base : value;
  };
  for (const ElfW(Dyn)* entry = object.dynamic; entry && entry->d_tag != DT_NULL; entry++) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address(*entry));
        break;
      case DT_STRTAB:
        tables.strings = reinterpret_cast<const char*>(address(*entry));
        break;
      case DT_RELA:
        tables.relocations[0].first = reinterpret_cast<const ElfW(Rela)*>(address(*entry));
        break;
      case DT_RELASZ:
        tables.relocations[0].second = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_JMPREL:
        tables.relocations[1].first = reinterpret_cast<const ElfW(Rela)*>(address(*entry));
        break;
      case DT_PLTRELSZ:
        tables.relocations[1].second = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      default:
        break;
    }
  }
  return tables;
}

bool binds_a_symbol(const ElfW(Rela) & relocation) {
  const auto type = ELF64_R_TYPE(relocation.r_info);
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
         (type == R_X86_64_64 && !relocation.r_addend);
}

void find_imports(Object& object) {
  const Tables tables = tables_of(object);
  if (!tables.symbols || !tables.strings) return;
  for (const auto& [relocations, count] : tables.relocations) {
    for (size_t i = 0; relocations && i < count; i++) {
      if (!binds_a_symbol(relocations[i])) continue;
      const ElfW(Sym) & symbol = tables.symbols[ELF64_R_SYM(relocations[i].r_info)];
      const char* name = tables.strings + symbol.st_name;
      if (strncmp(name, kPrefix, sizeof kPrefix - 1) != 0) continue;
      object.imports.push_back({name, reinterpret_cast<void**>(object.base + relocations[i].r_offset),
                                ELF64_R_TYPE(relocations[i].r_info) == R_X86_64_JUMP_SLOT,
                                symbol.st_shndx == SHN_UNDEF});
    }
  }
}

struct Search {
  std::mutex mutex;
  Loaded seen;
  std::set<std::pair<uintptr_t, const void*>> done;
  std::vector<Object> importers;
};

// Called by the loader, which unloads nothing meanwhile. Nothing here may ask it for anything.
int search_object(dl_phdr_info* info, size_t, void* out) {
  auto& search = *static_cast<Search*>(out);
  Object object = object_of(*info);
  // The kernel's own object has no imports, and its tables are no addresses.
  if (!object.dynamic || object.path.find("linux-vdso") == 0) return 0;
  if (!search.done.emplace(object.base, object.dynamic).second) return 0;
  find_imports(object);
  if (!object.imports.empty()) search.importers.push_back(std::move(object));
  return 0;
}

// Keeps an object loaded for as long as it lives; false if the object is gone already.
class Hold {
 public:
  explicit Hold(const Object& object)
      : handle_(dlopen(object.path.empty() ? nullptr : object.path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    const link_map* map = nullptr;
    is_it_ = handle_ && dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map->l_addr == object.base &&
             map->l_ld == object.dynamic;
  }
  ~Hold() {
    if (handle_) dlclose(handle_);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  explicit operator bool() const { return is_it_; }
  void* find(const char* symbol) const { return driver::real_dlsym(handle_, symbol); }

 private:
  void* handle_;
  bool is_it_;
};

void write_slot(const Object& object, void** slot, void* value) {
  const auto at = reinterpret_cast<uintptr_t>(slot);
  bool writable = false;
  for (const Range& range : object.writable) writable = writable || range.contains(at);
  // What is not aligned may lie on two pages.
  if (!writable || at % sizeof *slot) return;
  const bool protect = object.read_only.contains(at);
  auto* page = reinterpret_cast<void*>(page_of(at));
  if (protect && mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (protect) mprotect(page, page_bytes(), PROT_READ);
}

// What a slot leads to, or will after the first call; null: it is not to be touched.
void* target(const Object& object, const Import& import, void* bound, const Hold& hold) {
  // A weak reference to what is not there stays null.
  if (!bound) return nullptr;
  // What a name means to an object: first to the whole program, then to what it was loaded with.
  void* everywhere = driver::real_dlsym(RTLD_DEFAULT, import.symbol);
  void* here = hold.find(import.symbol);
  // Data may have been changed by the program since it was loaded.
  if (!import.is_call) return bound == everywhere || bound == here ? bound : nullptr;
  const bool leads_inside = object.all.contains(reinterpret_cast<uintptr_t>(bound));
  if (!leads_inside || bound == here) return bound;
  // Calls that were not made yet still lead into the object itself.
  void* meant = everywhere ? everywhere : here;
  // A program that is not relocatable has an address of its own for a function whose address it takes: that
  // leads through this slot again.
  if (import.is_undefined && object.all.contains(reinterpret_cast<uintptr_t>(meant))) return nullptr;
  return meant;
}

void follow(const Object& object, const Import& import, const Hold& hold) {
  void* real = target(object, import, __atomic_load_n(import.slot, __ATOMIC_ACQUIRE), hold);
  void* wrapped = real ? wrap(import.symbol, real) : nullptr;
  if (wrapped && wrapped != real) write_slot(object, import.slot, wrapped);
}

}  // namespace

void follow_imports() {
  Search& search = shared<Search>();
  // Another thread is at it.
  std::unique_lock<std::mutex> lock(search.mutex, std::try_to_lock);
  if (!lock) return;
  const Loaded now = loaded();
  if (now.added == search.seen.added && now.removed == search.seen.removed) return;
  // Places of what was unloaded may be taken by something else.
  if (now.removed != search.seen.removed) search.done.clear();
  search.seen = now;
  dl_iterate_phdr(search_object, &search);
  for (const Object& object : search.importers) {
    const Hold hold(object);
    if (!hold) continue;
    for (const Import& import : object.imports) follow(object, import, hold);
  }
  search.importers.clear();
}

}  // namespace nccl
}  // namespace cctrace
