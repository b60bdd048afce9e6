// The rank's end of the control channel: lines of text over a Unix socket to the driver, which thereby tells all ranks
// of all libraries what to do next.  A rank that has nothing to do blocks here, so that libraries which wait for their
// turn cost the one that is being timed nothing.
#pragma once

#include <string>
#include <string_view>

namespace tutti::compare {

class Control {
 public:
  /// Connects to the socket at `path`.  From then on the process ends when the driver does, wherever it may hang.
  explicit Control(const std::string& path);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// The next line without its end; "quit" when the driver is gone.
  std::string readLine();
  void writeLine(std::string_view line);

 private:
  int fd_ = -1;
  std::string pending_;
};

std::string toHex(std::string_view bytes);
std::string fromHex(std::string_view hex);

}  // namespace tutti::compare
