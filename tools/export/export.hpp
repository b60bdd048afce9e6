// Schedules written as plans of MSCCL and MSCCL++; src/import reads both.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

/// Our schedules, one per rank and of logical ops, as MSCCL's XML, in the dialect of <step>: a channel per lane, and in
/// it a thread block per peer and direction and one for local work.  Chunks of blocks that several channels share are
/// divided. Errors: InvalidArgument for a Barrier (MSCCL has none), for fused ops, for direct sends and for schedules
/// that differ.
Result<std::string> exportMscclXml(const std::vector<Schedule>& schedules, const std::string& name);

/// Our schedules, one per rank and of logical ops, as MSCCL++'s execution-plan JSON, the present format: a thread block
/// per lane.  A message is a put into its target where nobody uses that before, else into scratch of its own, and a
/// signal. Errors: InvalidArgument for collectives that MSCCL++ does not have (all but AllReduce, AllGather,
/// ReduceScatter and AllToAll), for fused ops, for direct sends and for schedules that differ.
Result<std::string> exportMscclppJson(const std::vector<Schedule>& schedules, const std::string& name);

}  // namespace tutti
