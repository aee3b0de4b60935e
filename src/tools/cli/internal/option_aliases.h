// Options that users of other systems write out of habit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What this program has in place of an option of other systems, such as "--steps N" for
/// "--epochs"; "" when it is unknown, or when `legal`, the options of a command, lacks it.
std::string option_alias(std::string_view option, const std::vector<std::string>& legal);

/// Why an option of other systems does not exist, and what to do; empty for other options.
struct ForeignOption {
  std::string_view option, why, fix;
};
ForeignOption foreign_option(std::string_view option);

}  // namespace tessera
