#include "compiler/placement_check/internal/texts.h"

#include "base/text/text.h"

namespace tessera {
namespace {

/// The texts of `things`, joined; `none` when there are no things.
template <typename T, typename ToText>
std::string joined(const std::vector<T>& things, ToText text_of, std::string_view separator,
                   const char* none) {
  std::vector<std::string> texts;
  for (const T& thing : things) texts.push_back(text_of(thing));
  return texts.empty() ? none : join(texts, separator);
}

}  // namespace

std::string axes_text(const Mesh& mesh, const std::vector<int>& axes) {
  return joined(axes, [&](int axis) { return mesh.axes()[axis]; }, ", ", "no axis");
}

std::string partial_text(const Mesh& mesh, const std::vector<PartialAxis>& partial) {
  const auto text_of = [&](const PartialAxis& p) {
    return std::string(to_text(p.reduce)) + " over " + axes_text(mesh, {p.axis});
  };
  return joined(partial, text_of, ", ", "nothing");
}

std::string ranges_text(const std::vector<Range>& ranges) {
  const auto text_of = [](const Range& range) {
    return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  };
  return joined(ranges, text_of, " and ", "nothing");
}

std::string boxes_text(const std::vector<Box>& boxes) {
  return joined(boxes, [](const Box& box) { return to_text(box); }, " and ", "nothing");
}

}  // namespace tessera
