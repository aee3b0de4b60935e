// Einsums: products and sums of tensors, written with a letter for each dim.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The letters of the dims of each operand, and those of the result. dot_general has two operands,
/// a and b.
///   example  "bqd,bkd->bqk": a = "bqd", b = "bkd", result = "bqk"
struct Einsum {
  std::vector<std::string> operands;
  std::string result;

  const std::string& a() const { return operands[0]; }
  const std::string& b() const { return operands[1]; }
  bool operator==(const Einsum&) const = default;
};

/// The inverse of to_text. It checks no letters.
///   returns  nullopt when `text` has no "->"
std::optional<Einsum> parse_einsum(std::string_view text);
std::string to_text(const Einsum& einsum);

bool has_letter(std::string_view letters, char letter);
/// The dim that `letter` names.
///   requires  has_letter(letters, letter)
int dim_of_letter(std::string_view letters, char letter);

}  // namespace tessera
