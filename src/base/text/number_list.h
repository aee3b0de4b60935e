// Long lists of numbers as short texts.
#pragma once

#include <span>
#include <string>

namespace tessera {

/// The numbers between commas: runs as "0-3", other even steps of more than five
/// numbers as "0,8,..,120", and what stays long with its ends and its length.
///
///     {0, 1, 2, 3, 8}            "0-3,8"
///     {0, 8, 16, ..., 120}       "0,8,..,120"
///     forty other numbers        "0-1,4-5,8-9,12-13,..,76-77 (40)"
std::string number_list(std::span<const int> numbers);

}  // namespace tessera
