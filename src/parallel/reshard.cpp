// Pieces from rank to rank: resharding, replicas, mirrors.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "src/parallel/pieces.hpp"

using namespace tutti::parallel;

struct tuttiMirror {
  tuttiMirror(tuttiComm_t comm, const tuttiPiece_t* mine, size_t n)
      : device(deviceOf(comm, TUTTI_DEVICE_HOST)), group(comm, *device), pieces(mine, mine + n) {}
  struct Generation {
    int64_t step = -1;  // -1: not whole
    std::vector<char> own, before;
  };
  std::shared_ptr<Device> device;  // first: ends last
  Group group;
  std::vector<tuttiPiece_t> pieces;  // names are not looked at
  std::vector<PieceInfo> own, before;
  Generation generations[2];
  int next = 0;
};

namespace tutti::parallel {
namespace {

size_t bytesIn(const std::vector<PieceInfo>& infos) {
  size_t sum = 0;
  for (const PieceInfo& i : infos) sum += i.bytes();
  return sum;
}

/// Addresses of pieces that lie one after another.
std::vector<char*> packedAt(const std::vector<PieceInfo>& infos, char* at) {
  std::vector<char*> all;
  for (const PieceInfo& i : infos) {
    all.push_back(at);
    at += i.bytes();
  }
  return all;
}

uint64_t reshard(Group& group, const std::vector<PieceInfo>& have, const std::vector<char*>& from,
                 const std::vector<PieceInfo>& want, const std::vector<char*>& to) {
  const size_t n = static_cast<size_t>(group.size()), me = static_cast<size_t>(group.rank());
  const auto sources = gatherInfos(group, have), wanted = gatherInfos(group, want);
  std::vector<size_t> sendCounts(n), receiveCounts(n);
  std::vector<char> out;
  std::vector<Move> mine;
  const auto bytes = [](const PieceInfo& p, int64_t count) {
    return static_cast<size_t>(count) * bytesOf(static_cast<tuttiDataType_t>(p.dtype));
  };
  for (size_t r = 0; r < n; ++r) {  // every rank plans for all: an element that is missing fails everywhere
    for (const Move& m : movesFor(wanted[r], sources, r, joined("rank ", r))) {
      const PieceInfo& source = sources[m.source][m.piece];
      if (r == me) mine.push_back(m);
      if (m.source != me || r == me) continue;
      const char* at = from[m.piece] + bytes(source, m.from);
      out.insert(out.end(), at, at + bytes(source, m.length));
      sendCounts[r] += bytes(source, m.length);
    }
  }
  for (const Move& m : mine) {
    if (m.source != me) receiveCounts[m.source] += bytes(want[m.want], m.length);
  }
  std::vector<char> in;
  std::vector<size_t> at(n);
  size_t sum = 0;
  for (size_t r = 0; r < n; ++r) {
    at[r] = sum;
    sum += receiveCounts[r];
  }
  in.resize(sum);
  if (n > 1) group.allToAllHost(out.data(), sendCounts, in.data(), receiveCounts, tuttiUint8);
  for (const Move& m : mine) {
    const size_t length = bytes(want[m.want], m.length);
    const char* source = m.source == me ? from[m.piece] + bytes(want[m.want], m.from) : in.data() + at[m.source];
    std::memcpy(to[m.want] + bytes(want[m.want], m.to), source, length);
    if (m.source != me) at[m.source] += length;
  }
  return out.size();
}

/// This rank's bytes to the next rank, the one before's to here.
void passOn(Group& group, const std::vector<char>& mine, std::vector<char>& theirs) {
  const size_t n = static_cast<size_t>(group.size()), me = static_cast<size_t>(group.rank());
  std::vector<size_t> sent(n), received(n);
  sent[(me + 1) % n] = mine.size();
  received[(me + n - 1) % n] = theirs.size();
  group.allToAllHost(mine.data(), sent, theirs.data(), received, tuttiUint8);
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiReshard(tuttiComm_t comm, const tuttiPiece_t* have, size_t nHave, const tuttiPiece_t* want,
                           size_t nWant, uint64_t* moved) {
  return guarded([&] {
    const auto mine = infosOf(have, nHave), wanted = infosOf(want, nWant);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    const PieceData from(*device, have, mine, true);
    PieceData to(*device, want, wanted, false);
    const uint64_t sent = reshard(group, mine, from.all(), wanted, to.all());
    to.putBack();
    if (moved != nullptr) *moved = sent;
  });
}

tuttiResult_t tuttiReplicaCheck(tuttiComm_t comm, const tuttiPiece_t* pieces, size_t n) {
  return guarded([&] {
    const auto infos = infosOf(pieces, n);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    const PieceData data(*device, pieces, infos, true);
    const size_t size = static_cast<size_t>(group.size());
    std::vector<uint64_t> hashes(size * n);
    std::vector<int64_t> cuts;
    for (size_t r = 0; r <= size; ++r) cuts.push_back(static_cast<int64_t>(r * n));
    for (size_t i = 0; i < n; ++i) {
      hashes[static_cast<size_t>(group.rank()) * n + i] =
          hashOfBytes(&infos[i], sizeof(PieceInfo)) + hashOfBytes(data.at(i), infos[i].bytes());
    }
    group.allGatherHost(hashes.data(), cuts.data(), tuttiUint64);
    for (size_t i = 0; i < n; ++i) {
      std::map<uint64_t, size_t> votes;
      for (size_t r = 0; r < size; ++r) ++votes[hashes[r * n + i]];
      if (votes.size() == 1) continue;
      const uint64_t most =
          std::max_element(votes.begin(), votes.end(), [](auto a, auto b) { return a.second < b.second; })->first;
      std::string odd;
      for (size_t r = 0; r < size; ++r) {
        if (hashes[r * n + i] != most) odd += (odd.empty() ? "" : ", ") + std::to_string(r);
      }
      fail(tuttiInvalidUsage, "replicas of ", pieces[i].name, " differ: rank ", odd,
           votes[most] * 2 > size ? " is not like the others" : " or others are wrong; there is no majority");
    }
  });
}

tuttiResult_t tuttiMirrorCreate(tuttiMirror_t* mirror, tuttiComm_t comm, const tuttiPiece_t* pieces, size_t n) {
  return guardedIf(mirror != nullptr && comm != nullptr, "mirror or comm is NULL", [&] {
    *mirror = nullptr;
    const auto infos = infosOf(pieces, n);
    auto made = std::make_unique<tuttiMirror>(comm, pieces, n);
    if (made->group.size() < 2) fail(tuttiInvalidUsage, "one rank has no neighbour");
    made->own = infos;
    const size_t size = static_cast<size_t>(made->group.size());
    made->before = gatherInfos(made->group, infos)[(static_cast<size_t>(made->group.rank()) + size - 1) % size];
    for (auto& g : made->generations) {
      g.own.resize(bytesIn(made->own));
      g.before.resize(bytesIn(made->before));
    }
    *mirror = made.release();
  });
}

tuttiResult_t tuttiMirrorDestroy(tuttiMirror_t mirror) {
  return guarded([&] { delete mirror; });
}

tuttiResult_t tuttiMirrorUpdate(tuttiMirror_t mirror, int64_t step) {
  return guarded([&] {
    require(mirror != nullptr && step >= 0, "mirror is NULL, or step is ", step);
    tuttiMirror::Generation& g = mirror->generations[mirror->next];
    g.step = -1;
    const std::vector<char*> at = packedAt(mirror->own, g.own.data());
    for (size_t i = 0; i < at.size(); ++i) {
      const size_t bytes = mirror->own[i].bytes();
      getBytes(*mirror->device, at[i], mirror->pieces[i].data, bytes);
    }
    passOn(mirror->group, g.own, g.before);
    g.step = step;
    mirror->next = 1 - mirror->next;
    // Nobody overwrites the generation before until all have this one.
    int32_t all = 1;
    mirror->group.allReduceHost(&all, 1, tuttiInt32, tuttiMin);
  });
}

tuttiResult_t tuttiMirrorRestore(tuttiMirror_t mirror, tuttiComm_t comm, const tuttiPiece_t* pieces, size_t n,
                                 int64_t* step) {
  return guardedIf(mirror != nullptr && step != nullptr, "mirror or step is NULL", [&] {
    const auto want = infosOf(pieces, n);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    int64_t newest = std::max(mirror->generations[0].step, mirror->generations[1].step);
    group.allReduceHost(&newest, 1, tuttiInt64, tuttiMin);
    tuttiMirror::Generation* g = nullptr;
    for (auto& one : mirror->generations) g = one.step == newest && newest >= 0 ? &one : g;
    agreeOrFail(group, tuttiInvalidUsage, g == nullptr ? "there is no generation of all survivors" : "");
    std::vector<PieceInfo> have = mirror->own;
    have.insert(have.end(), mirror->before.begin(), mirror->before.end());
    std::vector<char*> from = packedAt(mirror->own, g->own.data()), more = packedAt(mirror->before, g->before.data());
    from.insert(from.end(), more.begin(), more.end());
    PieceData to(*device, pieces, want, false);
    reshard(group, have, from, want, to.all());
    to.putBack();
    *step = newest;
  });
}
