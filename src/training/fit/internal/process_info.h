// Information about the process for logs.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

std::string host_name();  // "unknown" when the system does not say
int64_t process_id();
double seconds_since_1970();

}  // namespace tessera
