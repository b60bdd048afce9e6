// Measuring what it costs that ranks share a core.
#pragma once

namespace tutti {

/// Calibration::handOverUs of the core of the calling thread, the best of a few tries, in some 2 ms and no more
/// than 20. 0: no second thread or no core to keep both on, or other programs had the core all the time.
double measureHandOver();

}  // namespace tutti
