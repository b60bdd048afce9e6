// What NCCL takes a call for when it chooses: its own published model, by release.  It says which way runs, not how
// long that takes.
#pragma once

#include "tools/nccl_model/call.hpp"

namespace tutti::nccl_model {

/// Whether NCCL would consider it for the call at all.
bool considers(const Call& call, Way way, Protocol protocol);
/// Microseconds, where it would.
double estimateUs(const Call& call, Way way, Protocol protocol);

}  // namespace tutti::nccl_model
