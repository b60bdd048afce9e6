// What the readers of both MSCCL++ formats share: ops that become steps, and the semaphores behind channels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "src/import/json_text.hpp"
#include "src/import/program.hpp"

namespace tutti::foreign {

enum class Wire : uint8_t { Memory, Port, Switch };

/// One end of the number-th channel of its kind between this rank and the peer.
struct ChannelEnd {
  Wire wire = Wire::Memory;
  int peer = 0;
  int number = 0;
};

struct MulticastGroup {
  Buffer buffer = Buffer::Input;
  std::vector<int> ranks;
};

/// "i", "o" or "s".  Errors: anything else, with the path.
Result<Buffer> readBuffer(const JsonAt& at, const char* key);
/// "memory" or "sm", "port" or "proxy", "switch" or "nvls".  Errors: anything else, with the path.
Result<Wire> readWire(const JsonAt& at, const char* key);
/// Name, collective, message sizes.  Errors: with the path.
Status readPlanHead(const JsonAt& top, Program* program, uint64_t* minBytes, uint64_t* maxBytes);

/// The keys of a gpu's numbers of chunks, which differ between the formats.
struct ChunkKeys {
  const char *input, *output, *scratch;
};
/// The list of gpus, numbered in order, whose numbers of chunks make the program's.  Errors: with the path.
Result<std::vector<JsonAt>> readGpus(const JsonAt& top, const ChunkKeys& keys, Program* program);

/// How an op combines its sources and targets.
struct OpForm {
  const char* name;
  enum Shape : uint8_t { Pairs, Fold } shape;  // i-th source to i-th target; all sources to all targets
  int packetSources;                           // from this one on they are read as packets; kNone: none
  int packetTargets;
  bool signals;  // on its channels, afterwards
};
inline constexpr int kNone = INT32_MAX;
/// nullptr if there is no data-moving op of that name.
const OpForm* findOpForm(std::string_view name);

/// A source or target: several places if it is a multicast one.
using Places = std::vector<Place>;

class ProgramBuilder {
 public:
  explicit ProgramBuilder(Program* program) : program_(program) {}

  /// How many channels of a kind a rank has to a peer.
  using ChannelCount = std::map<std::pair<Wire, int>, int>;
  /// Append the rank's ends of channels to the peers under `key`.  Errors: with the path.
  Status readEnds(const JsonAt& channel, const char* key, Wire wire, int rank, ChannelCount* count,
                  std::vector<ChannelEnd>* out) const;
  /// Append the groups of ranks under `key`, of a channel on `buffer`.  Errors: with the path.
  Status readGroups(const JsonAt& channel, const char* key, Buffer buffer, std::vector<MulticastGroup>* out) const;

  int localSemaphore(int rank, int id, int initial);
  std::optional<int> findLocalSemaphore(int rank, int id) const;
  /// Append the step of a barrier, whose number of participants is under `key`.  Errors: with the path; if another op
  /// gives it another number.
  Status addBarrier(const JsonAt& op, const char* key, Step pattern, Thread* thread);
  /// Append a signal to the other end of a channel, or (posts false) the wait for one from there.  Returns its
  /// semaphore.
  int addSignal(const ChannelEnd& end, bool posts, const Step& pattern, Thread* thread);

  /// Append the steps of a data-moving op.  Errors: with the path, if numbers of sources and targets do not fit.
  Status addData(const JsonAt& op, const OpForm& form, const std::vector<Places>& sources,
                 const std::vector<Places>& targets, Step pattern, Thread* thread);

 private:
  Program* program_;
  std::map<std::tuple<Wire, int, int, int>, int> semaphores_;
  std::map<std::pair<int, int>, int> localSemaphores_;
  std::map<std::pair<int, int>, int> barriers_;
};

}  // namespace tutti::foreign
