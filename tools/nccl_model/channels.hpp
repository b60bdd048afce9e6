// On how many channels NCCL runs, and in which chunks.
#pragma once

#include "tools/nccl_model/machine.hpp"

namespace tutti::nccl_model {

/// What NCCL's search finds on a machine.
struct Channels {
  int found = 1;  // of the search
  double eachGBps = 0;
  int used = 2;  // rings and trees go twice over those found
  double gbps() const { return found * eachGBps; }
};

Channels ringsOf(const Machine& machine);
/// Trees over two nodes: each gets from inside the node what two channels between nodes bring.
double treesGBps(const Machine& machine, const Channels& rings);

/// Channels that a call of so many bytes is worth: each has to have bytes for all of its threads.
int channelsWorth(const Machine& machine, const Channels& rings, Protocol protocol, bool ring, double bytes);

/// GPUs that have a part of the vector reduced by the switch, and the chunks these go in.
struct SwitchParts {
  double heads = 0, channels = 0, chunkBytes = 0;
  double loopBytes() const { return heads * channels * chunkBytes; }
};
/// Inside nodes (Nvls, NvlsSharp), or with trees between them (NvlsTree).
SwitchParts switchPartsOf(const Machine& machine, Way way, int release, double bytes);
/// The most of a step of a ring, and of a tree: half and an eighth of a connection's buffer by Simple.
double ringChunk(const Machine& machine);
double slotBytes(const Machine& machine);

}  // namespace tutti::nccl_model
