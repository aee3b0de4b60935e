// Lesson 3: from one placement to another.
//
// Two operators may need one tensor in different placements. A reshard sends exactly the boxes that
// are missing. All-gather, all-to-all and others are names of common cases; any other case is
// called messages.
#include <cstdio>

#include "base/error.h"
#include "sharding/reshard/reshard.h"

using namespace tessera;

namespace {

const TensorType kType = parse_tensor_type("f32[6,12]");

/// Prints the name of the reshard between two placements, its exchanges, and what one rank receives
/// in each.
void show(const MeshPtr& mesh, const char* from_text, const char* to_text_form, Rank receiver) {
  const DistAttr from = parse_dist_type(from_text, mesh).attr;
  const DistAttr to = parse_dist_type(to_text_form, mesh).attr;
  const std::vector<Exchange> exchanges = plan_reshard(kType, from, to);
  std::printf("%s -> %s: %s\n", from_text, to_text_form,
              std::string(to_text(classify(kType.shape, from, to))).c_str());
  for (const Exchange& exchange : exchanges) {
    std::printf("  %s to %s\n", std::string(to_text(exchange.kind)).c_str(),
                to_text(exchange.to).c_str());
    for (const RecvRegion& region : recv_regions(kType.shape, exchange, receiver))
      std::printf("    rank %d takes %s of rank %d\n", receiver, to_text(region.box).c_str(),
                  region.sender);
  }
  std::printf("  %lld elements come from other ranks\n\n",
              static_cast<long long>(received_elements(kType.shape, exchanges, receiver)));
}

}  // namespace

int main() try {
  // Six ranks: [[0, 1], [2, 3], [4, 5]]. Rank 3 is at x 1, y 1.
  const auto mesh = std::make_shared<const Mesh>(Shape{3, 2}, std::vector<std::string>{"x", "y"});

  // Rows over x, columns over y: each rank holds 2 x 6. For whole rows it needs the 2 x 6 of its
  // neighbour on y.
  show(mesh, "f32[6@x, 12@y]", "f32[6@x, 12]", 3);

  // The axes change dims: 12 / 3 = 4 columns and 6 / 2 = 3 rows. Rank 3 already holds a part of
  // them.
  show(mesh, "f32[6@x, 12@y]", "f32[6@y, 12@x]", 3);

  // A slice of a held tensor needs no communication.
  show(mesh, "f32[6@x, 12]", "f32[6@x, 12@y]", 3);

  // Partial over y: each rank adds the two partial values of its own rows.
  show(mesh, "f32[6, 12@x] {partial sum: y}", "f32[6@y, 12@x]", 3);

  // 6 rows do not divide by 4: the first two parts are larger. Uneven is normal.
  const auto line = std::make_shared<const Mesh>(Shape{4}, std::vector<std::string>{"z"});
  for (Rank rank : line->ranks()) {
    const DistAttr rows = parse_dist_type("f32[6@z, 12]", line).attr;
    std::printf("rank %d of z=4 holds %s\n", rank, to_text(rows.box(kType.shape, {rank})).c_str());
  }
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
