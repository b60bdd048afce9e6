// The options of one communicator: tuttiConfig_t, over the environment, over the defaults.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "src/base/wire_format.hpp"
#include "transport/table.hpp"

namespace tutti {

struct CommSettings {
  bool blocking = true;
  bool reproducible = false;
  int timeoutMs = 30000;
  int nChannels = 0;    // 0: the planner's choice, of at least minChannels and at most maxChannels
  int minChannels = 1;  // more than are possible are as many as are possible
  int maxChannels = 64;
  bool splitShare = true;
  int cudaDevice = -1;  // the device that ranks compute on; -1: the host
  tuttiWaitMode_t waitMode = TUTTI_WAIT_AUTO;
  WireFormat wire = WireFormat::Full;
  std::string transports;  // as TUTTI_TRANSPORTS; names of `table`
  TransportTable table = ::tutti::transports();
  std::string name;
  std::string hostLinks;  // of the parent, as toText(HostLinkFigures); set while it came up
};

/// config may be nullptr.  parent: what undefined fields take instead of the environment's values (children); also what
/// the transports are.
/// Errors: InvalidArgument naming the field; InvalidUsage naming the variable.
Result<CommSettings> resolveSettings(const tuttiConfig_t* config, const CommSettings* parent);

/// Where ranks compute whose config leaves it open: the calling thread's current CUDA device, or -1 for the host.
/// Errors: InvalidUsage, UnhandledCudaError: TUTTI_DEVICE cannot be honoured.
Result<int> defaultDevice();

/// Whether `name` is one that TUTTI_DEVICE may have.  Errors: InvalidUsage.
Status checkDeviceName(const std::string& name);

/// As in TUTTI_WAIT.  Errors: InvalidUsage.
Result<tuttiWaitMode_t> parseWaitMode(const std::string& name);
std::string_view waitModeName(tuttiWaitMode_t mode);

/// Whether a transport of this name may be used: "shm,tcp" lists, "^x" excludes, "" allows all.
bool transportAllowed(const std::string& list, std::string_view name);
/// Whether ranks with these settings may be joined by it: it is in the list, and encrypts where TUTTI_ENCRYPT asks for
/// that.
bool isAllowed(const TransportEntry& entry, const CommSettings& settings);
/// Errors: InvalidUsage: a transport is asked for by name that cannot encrypt, where all is to be encrypted.
Status checkEncryption(const CommSettings& settings);
/// Errors: InvalidUsage: a narrower format is asked for, which ranks on CUDA devices cannot have.
Status checkWireOnDevices(WireFormat wire);
/// Errors: InvalidUsage naming the unknown transport and those of the table.
Status checkTransportList(const std::string& list, TransportTable table);

}  // namespace tutti
