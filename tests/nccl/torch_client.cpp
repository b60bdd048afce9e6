// The calls that PyTorch's ProcessGroupNCCL makes, in its order, with the data that DDP, FSDP2 and torch.distributed
// give it.
//   torch_client PROCESSES THREADS [cuda]     THREADS ranks in each process, a thread each
//
// Facts of PyTorch 2.11 (NCCLUtils.hpp, ProcessGroupNCCL.cpp, cuda/nccl.cpp): every call on a communicator may answer
// ncclInProgress and is then asked about until it does not; communicators have a config, blocking or not; a split waits
// for the parent and then for the child's pointer; a collective is made on a side stream that the work waits for;
// coalesced calls, batches of messages and unequal all-to-alls are groups; a barrier is an all-reduce of one element;
// objects travel as a length and bytes; a thread of its own watches async errors, and aborts.
#include <cstdint>
#include <numeric>
#include <thread>

#include "tests/nccl/torch_group.hpp"

#include <sys/mman.h>

using namespace torch_client;

namespace {

using Values = std::vector<float>;

Values ramp(size_t count, int factor) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(factor * static_cast<int>(i % 7 + 1));
  return values;
}
int sumTo(int n) { return n * (n + 1) / 2; }

/// DDP: buckets averaged one after another on the group's stream while others are still being filled; waited for at the
/// end.
void ddp(const ProcessGroup& group) {
  const size_t sizes[] = {1, 1000, 4099, 257};
  std::vector<std::unique_ptr<Tensor<float>>> buckets;
  for (const size_t size : sizes) {
    buckets.push_back(std::make_unique<Tensor<float>>(group.device, ramp(size, (group.rank + 1) * group.size)));
    float* bucket = buckets.back()->at();
    group.call(ncclAllReduce(bucket, bucket, size, ncclFloat, ncclAvg, group.comm.handle, group.stream));
  }
  group.wait();
  for (size_t b = 0; b < buckets.size(); ++b) CHECK(buckets[b]->values() == ramp(sizes[b], sumTo(group.size)));
}

/// FSDP2: parameters gathered on one stream, gradients reduced and scattered on another, on one communicator; averages,
/// and where there is a factor, an operator made for this call.
void fsdp(const ProcessGroup& group) {
  constexpr size_t kShard = 513;
  const cudaStream_t reduceStream = group.device.newStream();
  for (int layer = 0; layer < 3; ++layer) {
    Tensor<float> whole(group.device, kShard * static_cast<size_t>(group.size), -1);
    float* mine = whole.at(kShard * static_cast<size_t>(group.rank));
    Tensor<float> shard(group.device, ramp(kShard, group.rank + layer)), gradient(group.device, kShard, -1);
    group.call(ncclAllGather(shard.at(), whole.at(), kShard, ncclFloat, group.comm.handle, group.stream));
    group.wait();
    const Values gathered = whole.values();
    for (size_t i = 0; i < gathered.size(); ++i) {
      CHECK(gathered[i] == ramp(kShard, static_cast<int>(i / kShard) + layer)[i % kShard]);
    }
    whole.set(Values(whole.count(), static_cast<float>(4 * group.size * (group.rank + 1))));
    ncclRedOp_t op = ncclAvg;
    float quarter = 0.25f;
    if (layer > 0) {
      NCCL(ncclRedOpCreatePreMulSum(&op, &quarter, ncclFloat, ncclScalarHostImmediate, group.comm.handle));
    }
    float* out = layer == 2 ? mine : gradient.at();  // in place, too
    group.call(ncclReduceScatter(whole.at(), out, kShard, ncclFloat, op, group.comm.handle, reduceStream));
    if (layer > 0) NCCL(ncclRedOpDestroy(op, group.comm.handle));
    CHECK(group.device.wait(reduceStream) == 0);
    const float wanted = static_cast<float>(sumTo(group.size) * (layer > 0 ? group.size : 4));
    const Values got = layer == 2 ? whole.values() : gradient.values();
    for (size_t i = 0; i < kShard; ++i)
      CHECK(got[layer == 2 ? kShard * static_cast<size_t>(group.rank) + i : i] == wanted);
  }
  group.device.release(reduceStream);
}

/// all_to_all_single with unequal parts: rank r sends s elements to rank s; with none there is no call, on either side.
void exchange(const ProcessGroup& group) {
  const size_t n = static_cast<size_t>(group.size), me = static_cast<size_t>(group.rank);
  Tensor<int64_t> in(group.device, std::vector<int64_t>(n * (n - 1) / 2, group.rank)), out(group.device, n * me, -1);
  group.start();
  for (size_t peer = 0, at = 0; peer < n; at += peer++) {
    const int other = static_cast<int>(peer);
    if (peer > 0) group.call(ncclSend(in.at(at), peer, ncclInt64, other, group.comm.handle, group.stream));
    if (me > 0) group.call(ncclRecv(out.at(peer * me), me, ncclInt64, other, group.comm.handle, group.stream));
  }
  group.end();
  group.wait();
  const std::vector<int64_t> got = out.values();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == static_cast<int64_t>(i / me));
}

/// batch_isend_irecv round a ring, as pipelines do it: both directions in one group.
void messages(const ProcessGroup& group) {
  const int next = (group.rank + 1) % group.size, last = (group.rank + group.size - 1) % group.size;
  Tensor<float> mine(group.device, 300, static_cast<float>(group.rank)), fromLast(group.device, 300, -1);
  Tensor<float> fromNext(group.device, 300, -1);
  group.start();
  group.call(ncclSend(mine.at(), 300, ncclFloat, next, group.comm.handle, group.stream));
  group.call(ncclRecv(fromLast.at(), 300, ncclFloat, last, group.comm.handle, group.stream));
  group.call(ncclSend(mine.at(), 300, ncclFloat, last, group.comm.handle, group.stream));
  group.call(ncclRecv(fromNext.at(), 300, ncclFloat, next, group.comm.handle, group.stream));
  group.end();
  group.wait();
  CHECK(fromLast.values() == Values(300, static_cast<float>(last)));
  CHECK(fromNext.values() == Values(300, static_cast<float>(next)));
}

/// all_gather of a list with unequal parts, which is a broadcast from each, and other collectives in the same manager.
void coalesced(const ProcessGroup& group) {
  const size_t n = static_cast<size_t>(group.size);
  Tensor<float> parts(group.device, n * (n + 1) / 2, -1);
  Tensor<float> mine(group.device, static_cast<size_t>(group.rank) + 1, static_cast<float>(group.rank));
  Tensor<float> sum(group.device, ramp(1000, group.rank + 1)), most(group.device, ramp(10, group.rank + 1));
  group.start();
  for (size_t root = 0, at = 0; root < n; at += ++root) {
    group.call(ncclBroadcast(mine.at(), parts.at(at), root + 1, ncclFloat, static_cast<int>(root), group.comm.handle,
                             group.stream));
  }
  group.call(ncclAllReduce(sum.at(), sum.at(), 1000, ncclFloat, ncclSum, group.comm.handle, group.stream));
  group.call(ncclAllReduce(most.at(), most.at(), 10, ncclFloat, ncclMax, group.comm.handle, group.stream));
  group.end();
  group.wait();
  CHECK(sum.values() == ramp(1000, sumTo(group.size)) && most.values() == ramp(10, group.size));
  const Values got = parts.values();
  for (size_t root = 0, at = 0; root < n; ++root) {
    for (size_t i = 0; i <= root; ++i) CHECK(got[at++] == static_cast<float>(root));
  }
}

/// broadcast_object_list: the length, then the bytes.
void objects(const ProcessGroup& group) {
  const int root = group.size - 1;
  std::vector<uint8_t> pickled(777);
  std::iota(pickled.begin(), pickled.end(), uint8_t{3});
  Tensor<int64_t> length(group.device, 1, group.rank == root ? static_cast<int64_t>(pickled.size()) : 0);
  group.call(ncclBroadcast(length.at(), length.at(), 1, ncclInt64, root, group.comm.handle, group.stream));
  group.wait();
  const size_t bytes = static_cast<size_t>(length.values()[0]);
  Tensor<uint8_t> object(group.device, group.rank == root ? pickled : std::vector<uint8_t>(bytes));
  group.call(ncclBcast(object.at(), bytes, ncclUint8, root, group.comm.handle, group.stream));
  group.wait();
  CHECK(object.values() == pickled);
}

/// gather and scatter, which torch makes of messages, with the root's own part among them.
void rooted(const ProcessGroup& group) {
  const int root = 0;
  Tensor<float> mine(group.device, 50, static_cast<float>(group.rank + 1)), back(group.device, 50, -1);
  Tensor<float> all(group.device, 50 * static_cast<size_t>(group.size), -1);
  for (const bool gathers : {true, false}) {
    group.start();
    for (int peer = 0; group.rank == root && peer < group.size; ++peer) {
      float* part = all.at(50 * static_cast<size_t>(peer));
      group.call(gathers ? ncclRecv(part, 50, ncclFloat, peer, group.comm.handle, group.stream)
                         : ncclSend(part, 50, ncclFloat, peer, group.comm.handle, group.stream));
    }
    group.call(gathers ? ncclSend(mine.at(), 50, ncclFloat, root, group.comm.handle, group.stream)
                       : ncclRecv(back.at(), 50, ncclFloat, root, group.comm.handle, group.stream));
    group.end();
    group.wait();
  }
  CHECK(back.values() == mine.values());
}

/// A memory pool's segments are registered with the group's communicator, locally or as windows.
void registration(const ProcessGroup& group) {
  constexpr size_t kBytes = 4 * NCCL_WIN_REQUIRED_ALIGNMENT;
  void *segment = nullptr, *handle = nullptr;
  ncclWindow_t window = nullptr;
  NCCL(ncclMemAlloc(&segment, kBytes));
  auto* x = static_cast<float*>(segment);
  NCCL(ncclCommRegister(group.comm.handle, segment, kBytes, &handle));
  group.call(ncclAllGather(x + group.rank, x, 1, ncclFloat, group.comm.handle, group.stream));
  group.wait();
  NCCL(ncclCommDeregister(group.comm.handle, handle));
  NCCL(ncclCommWindowRegister(group.comm.handle, segment, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  group.call(ncclAllReduce(x, x, kBytes / sizeof *x, ncclFloat, ncclSum, group.comm.handle, group.stream));
  group.wait();
  NCCL(ncclCommWindowDeregister(group.comm.handle, window));
  NCCL(ncclMemFree(segment));
}

/// The time estimator: what is collected is estimated, and not run.
void estimate(const ProcessGroup& group) {
  Tensor<float> x(group.device, 1000, 1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  group.start();
  group.call(ncclAllReduce(x.at(), x.at(), 1000, ncclFloat, ncclSum, group.comm.handle, group.stream));
  NCCL(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime > 0 || group.size == 1);
  CHECK(x.values() == Values(1000, 1));
}

void everything(const ProcessGroup& group) {
  group.barrier();
  ddp(group);
  fsdp(group);
  exchange(group);
  messages(group);
  coalesced(group);
  objects(group);
  rooted(group);
  registration(group);
  estimate(group);
}

/// A device mesh: halves as children, the last rank in none; sharded across one dimension, replicated over the other.
void meshes(ProcessGroup* world, bool blocking) {
  const int inside = world->size - 1;
  const bool without = world->rank == inside && world->size > 1;
  {
    ProcessGroup most(world, without ? NCCL_SPLIT_NOCOLOR : 0, world->rank, without ? 0 : std::max(inside, 1),
                      blocking);
    if (!without) everything(most);
  }
  const int rows = world->size % 2 == 0 ? 2 : 1, columns = world->size / rows;
  ProcessGroup shard(world, world->rank / columns, world->rank % columns, columns, blocking);
  ProcessGroup replicate(world, world->rank % columns, world->rank / columns, rows, blocking);
  fsdp(shard);
  ddp(replicate);  // while the other's threads are alive
  fsdp(shard);
}

/// Unbatched send and recv: a communicator of its own for the pair, made lazily while a group of the other is open.
void pair(const ProcessGroup& world, Store* store, int number, bool blocking) {
  if (world.rank > 1 || world.size < 2) return;
  const ncclUniqueId id = store->share(number, world.rank == 0);
  ProcessGroup two(world.device, world.rank, 2, id, blocking);
  Tensor<double> x(world.device, 20, world.rank == 0 ? 2.5 : 0);
  two.call(world.rank == 0 ? ncclSend(x.at(), 20, ncclDouble, 1, two.comm.handle, two.stream)
                           : ncclRecv(x.at(), 20, ncclDouble, 0, two.comm.handle, two.stream));
  two.wait();
  CHECK(x.values() == std::vector<double>(20, 2.5));
}

/// A rank does not come.  The others' watchdogs see a call that does not end, and abort the communicator, in a group
/// with another one, from their own threads; the main threads, which wait for their streams, get free.
void watchdog(const ProcessGroup& world, Store* store, int number) {
  if (world.size < 2) return;
  Communicator hung, idle;
  ncclConfig_t config = configOf(false);
  const ncclUniqueId ids[] = {store->share(number, world.rank == 0), store->share(number + 1, world.rank == 0)};
  for (int i = 0; i < 2; ++i) {
    Communicator& comm = i == 0 ? hung : idle;
    const ncclResult_t begun = ncclCommInitRankConfig(&comm.handle, world.size, ids[i], world.rank, &config);
    CHECK(begun == ncclSuccess || begun == ncclInProgress);
    comm.ready();
  }
  const cudaStream_t stream = world.device.newStream();
  Tensor<float> x(world.device, 100, 1);
  const auto abort = [&] {
    NCCL(ncclGroupStart());
    NCCL(ncclCommAbort(hung.handle));
    NCCL(ncclCommAbort(idle.handle));
    NCCL(ncclGroupEnd());
  };
  if (world.rank == 0) {
    while (store->arrived.load() < world.size - 1) nap();
    abort();
  } else {
    const ncclResult_t begun = ncclAllReduce(x.at(), x.at(), 100, ncclFloat, ncclSum, hung.handle, stream);
    CHECK(begun == ncclSuccess || begun == ncclInProgress);
    ++store->begun;
    std::thread watching([&] {
      while (store->begun.load() < world.size - 1) nap();  // a call behind an abort is refused
      ncclResult_t state = ncclSuccess;
      for (int looks = 0; looks < 20 && (state == ncclSuccess || state == ncclInProgress); ++looks) {
        NCCL(ncclCommGetAsyncError(hung.handle, &state));
        nap();
      }
      ++store->arrived;
      abort();
    });
    (void)world.device.wait(stream);  // an error or none: the work's exception is the watchdog's
    watching.join();
  }
  world.device.release(stream);
}

struct Job {
  int processes, threads;
  bool onDevice;
  Store* store;
};

void serve(const Job& job, int rank) {
  const Device device(job.onDevice);
  const int size = job.processes * job.threads;
  int number = 0;
  for (const bool blocking : {true, false}) {
    const ncclUniqueId id = job.store->share(number, rank == 0);
    ProcessGroup world(device, rank, size, id, blocking);
    everything(world);
    meshes(&world, blocking);
    pair(world, job.store, number + 1, blocking);
    if (!blocking) watchdog(world, job.store, number + 2);
    everything(world);  // and the world is as it was
    number += 4;
  }
}

void body(int process, void* argument) {
  const Job& job = *static_cast<const Job*>(argument);
  std::vector<std::thread> threads;
  for (int t = 1; t < job.threads; ++t)
    threads.emplace_back([&job, process, t] { serve(job, process * job.threads + t); });
  serve(job, process * job.threads);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  Job job{};
  job.processes = argc > 2 ? std::atoi(argv[1]) : 0;
  job.threads = argc > 2 ? std::atoi(argv[2]) : 0;
  job.onDevice = argc == 4 && std::strcmp(argv[3], "cuda") == 0;
  if (job.processes < 1 || job.threads < 1 || job.processes > kMostProcesses || (argc == 4 && !job.onDevice)) {
    std::fprintf(stderr, "usage: %s PROCESSES THREADS [cuda]\n", argv[0]);
    return 2;
  }
  void* shared = mmap(nullptr, sizeof(Store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  job.store = new (shared) Store;
  return onProcesses(job.processes, body, &job);
}
