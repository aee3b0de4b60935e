#include "base/tensor/einsum.h"

#include "base/text/text.h"

namespace tessera {

std::optional<Einsum> parse_einsum(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  return Einsum{split_text(text.substr(0, arrow), ','), std::string(text.substr(arrow + 2))};
}

std::string to_text(const Einsum& einsum) {
  return join(einsum.operands, ",") + "->" + einsum.result;
}

bool has_letter(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

int dim_of_letter(std::string_view letters, char letter) {
  return static_cast<int>(letters.find(letter));
}

}  // namespace tessera
