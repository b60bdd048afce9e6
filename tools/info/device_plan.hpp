// Ranks on CUDA devices, for `tutti-info --plan --way`.
#pragma once

#include <optional>

#include "src/plan/device_prices.hpp"
#include "tools/info/described_job.hpp"

namespace tutti {

/// The costs of question.way for the request's ranks: on the GPUs of `job`, or all on one device where there is no job.
/// Errors: InvalidUsage: no such way, ranks that are not on GPUs, or on several hosts but by proxies.
Result<DeviceCosts> devicesOf(const PlanQuestion& question, const std::optional<DescribedJob>& job, int nRanks);

/// Has `request` plan for them.  Borrows both; sets the levels where devices do the work.
void planFor(const DeviceCosts& costs, PlanRequest* request, MachineLevels* levels);

}  // namespace tutti
