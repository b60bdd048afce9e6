#include "src/comm/failure_dump.hpp"

#include "src/base/caught.hpp"
#include "src/base/log.hpp"
#include "src/base/threads.hpp"

namespace tutti {

FailureDump::~FailureDump() {
  const std::lock_guard lock(mutex_);
  if (writer_.joinable()) writer_.join();
}

void FailureDump::begin(const Status& why) {
  if (!wanted()) return;
  const std::lock_guard lock(mutex_);
  if (writer_.joinable()) return;
  Result<std::thread> started = startThread("a flight record", [this, why] {
    (void)caught([&]() -> Status {
      write(why);
      return {};
    });
  });
  if (started.ok()) {
    writer_ = std::move(*started);
  } else {
    TUTTI_WARN("trace", started.status().text());  // a call that fails writes it
  }
}

void FailureDump::write(const Status& why) {
  if (!wanted()) return;
  std::call_once(once_, [&] {
    recorder_.noteFailure(why.text());
    if (!recorder_.dumpsFailures()) return;
    const Status written = recorder_.dump("", why.text());
    if (!written.ok()) TUTTI_WARN("trace", written.text());
  });
}

}  // namespace tutti
