// One of a few ranks as processes: every collective on tuttiMemAlloc memory, on malloc's, and on a mixture by rank, out
// of place, in place, and either by rank, so that a call's messages go by mappings, by process_vm_readv and by slots,
// as each sender chooses.  Exit status 0 if every element was right.
//   allocated_ranks [registered|preloaded]   in the place of tuttiMemAlloc's memory that of malloc, registered; or of
//                                            malloc with libtutti_malloc.so, which does not have smaller allocations
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

namespace {

enum class Mixture : int { All, EvenRanks, None };

bool holds(Mixture mixture, const Rank& r) {
  return mixture == Mixture::All || (mixture == Mixture::EvenRanks && r.rank % 2 == 0);
}

bool registered = false, preloaded = false;
tuttiComm_t comm = nullptr;
struct Registered {
  void* handle = nullptr;
  size_t bytes = 0;
};
std::map<void*, Registered> registrations;  // by address

/// Whether the first whole page of this memory is one of a memfd of Tutti's; less than two pages may hold none.
bool isMapped(void* at, size_t bytes) {
  if (bytes < 8192) return false;
  const uintptr_t page = (reinterpret_cast<uintptr_t>(at) + 4095) / 4096 * 4096;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && begin <= page && page < end)
      return line.find("rw-s") != std::string::npos && line.find("memfd:tutti") != std::string::npos;
  }
  return false;
}

void* registeredMemory(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (preloaded) return bytes < 65'536 || isMapped(memory, bytes) ? memory : nullptr;
  Registered& made = registrations[memory];
  made.bytes = bytes;
  if (memory == nullptr || tuttiCommRegister(comm, memory, bytes, &made.handle) != tuttiSuccess) return nullptr;
  return bytes < 8192 || isMapped(memory, bytes) ? memory : nullptr;
}

void freeRegistered(void* memory) {
  if (preloaded) return std::free(memory);
  const Registered& made = registrations.at(memory);
  if (tuttiCommDeregister(comm, made.handle) != tuttiSuccess || isMapped(memory, made.bytes)) std::abort();
  registrations.erase(memory);
  std::free(memory);
}

std::string checkMixture(const Rank& r, Mixture mixture) {
  const bool allocated = holds(mixture, r);
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{40'961}, size_t{150'001}}) {
    CheckOptions o;
    o.count = count;
    o.memory = !allocated ? Memory::Plain : registered || preloaded ? Memory::Other : Memory::Allocated;
    o.root = r.nRanks - 1;
    for (const Mixture inPlace : {Mixture::None, Mixture::EvenRanks, Mixture::All}) {
      o.inPlace = holds(inPlace, r);
      o.shift = o.inPlace ? 0 : 4;
      if (std::string why = checkEverything(r, o); !why.empty()) {
        return why + " (count " + std::to_string(count) + ", mixture " + std::to_string(static_cast<int>(mixture)) +
               ", in place " + std::to_string(static_cast<int>(inPlace)) + ")";
      }
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  registered = argc > 1 && std::strcmp(argv[1], "registered") == 0;
  preloaded = argc > 1 && std::strcmp(argv[1], "preloaded") == 0;
  otherMemory = {registeredMemory, freeRegistered};
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
    comm = r.comm;
  }
  for (const Mixture mixture : {Mixture::All, Mixture::EvenRanks, Mixture::None}) {
    if (why.empty()) why = checkMixture(r, mixture);
  }
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  return why.empty() ? 0 : 1;
}
