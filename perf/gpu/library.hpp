// The library that is measured: Tutti, or one with NCCL's functions, found in a file.  Both are called by NCCL's
// signatures, in which types and operators have the same values, so that one table of functions does for both.
#pragma once

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "src/base/status.hpp"
#include "tutti/tutti.h"

namespace tutti::gpuperf {

/// Functions of a library; null are those that it lacks (allToAll, gather and scatter in NCCL before 2.28).
struct Library {
  std::string name;
  decltype(&tuttiGetUniqueId) getUniqueId = nullptr;
  decltype(&tuttiCommInitRank) commInitRank = nullptr;
  decltype(&tuttiCommDestroy) commDestroy = nullptr;
  decltype(&tuttiGetLastError) getLastError = nullptr;
  decltype(&tuttiGroupStart) groupStart = nullptr;
  decltype(&tuttiGroupEnd) groupEnd = nullptr;
  decltype(&tuttiAllReduce) allReduce = nullptr;
  decltype(&tuttiBroadcast) broadcast = nullptr;
  decltype(&tuttiReduce) reduce = nullptr;
  decltype(&tuttiAllGather) allGather = nullptr;
  decltype(&tuttiReduceScatter) reduceScatter = nullptr;
  decltype(&tuttiAllToAll) allToAll = nullptr;
  decltype(&tuttiGather) gather = nullptr;
  decltype(&tuttiScatter) scatter = nullptr;
  decltype(&tuttiSend) send = nullptr;
  decltype(&tuttiRecv) recv = nullptr;
};

inline Library tuttiLibrary() {
  const auto onDevice = [](tuttiComm_t* comm, int nRanks, tuttiUniqueId id, int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    return tuttiCommInitRankConfig(comm, nRanks, id, rank, &config);
  };
  return {.name = "tutti",
          .getUniqueId = tuttiGetUniqueId,
          .commInitRank = onDevice,
          .commDestroy = tuttiCommDestroy,
          .getLastError = tuttiGetLastError,
          .groupStart = tuttiGroupStart,
          .groupEnd = tuttiGroupEnd,
          .allReduce = tuttiAllReduce,
          .broadcast = tuttiBroadcast,
          .reduce = tuttiReduce,
          .allGather = tuttiAllGather,
          .reduceScatter = tuttiReduceScatter,
          .allToAll = tuttiAllToAll,
          .gather = tuttiGather,
          .scatter = tuttiScatter,
          .send = tuttiSend,
          .recv = tuttiRecv};
}

/// NCCL's functions in the file at `path`, which stays loaded.
inline Result<Library> ncclLibrary(const char* path) {
  void* const file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return invalidArgument("cannot load ", path, ": ", dlerror());
  Library library;
  library.name = "nccl";
  const auto find = [file](const char* symbol, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(file, symbol));
  };
  find("ncclGetUniqueId", &library.getUniqueId);
  find("ncclCommInitRank", &library.commInitRank);
  find("ncclCommDestroy", &library.commDestroy);
  find("ncclGetLastError", &library.getLastError);
  find("ncclGroupStart", &library.groupStart);
  find("ncclGroupEnd", &library.groupEnd);
  find("ncclAllReduce", &library.allReduce);
  find("ncclBroadcast", &library.broadcast);
  find("ncclReduce", &library.reduce);
  find("ncclAllGather", &library.allGather);
  find("ncclReduceScatter", &library.reduceScatter);
  find("ncclAlltoAll", &library.allToAll);
  find("ncclGather", &library.gather);
  find("ncclScatter", &library.scatter);
  find("ncclSend", &library.send);
  find("ncclRecv", &library.recv);
  if (library.getLastError == nullptr || library.groupEnd == nullptr || library.recv == nullptr) {
    return invalidArgument(path, " lacks functions that NCCL has since 2.13");
  }
  return library;
}

}  // namespace tutti::gpuperf
