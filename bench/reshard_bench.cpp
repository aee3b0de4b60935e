// The bytes of reshards relative to the lower bound: for all ordered pairs of placements of a mesh,
// the largest number of bytes that a rank receives, relative to the bound. They are counted, not
// timed. The figures of published algorithms for the same pairs are quoted, not run here.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "sharding/reshard/reshard.h"

namespace tessera {
namespace {

/// Every placement without partial values, axis by axis.
std::vector<DistAttr> placements_of(const MeshPtr& mesh, int rank) {
  std::vector<std::vector<Placement>> lists = {{}};
  for (int axis = 0; axis < mesh->axis_count(); ++axis) {
    std::vector<std::vector<Placement>> longer;
    for (const auto& list : lists)
      for (int d = -1; d < rank; ++d) {
        longer.push_back(list);
        longer.back().push_back(d < 0 ? Replicate() : Shard(d));
      }
    lists = std::move(longer);
  }
  std::vector<DistAttr> attrs;
  for (const auto& list : lists) attrs.push_back(from_placements(mesh, rank, list));
  return attrs;
}

struct Ratios {
  double sum = 0, worst = 0;
  int pairs = 0, chains = 0;

  void add(int64_t received, int64_t bound, bool is_chain) {
    const double ratio =
        bound == 0 ? 1.0 : static_cast<double>(received) / static_cast<double>(bound);
    sum += ratio;
    worst = std::max(worst, ratio);
    ++pairs;
    chains += is_chain;
  }
};

enum class Form { kDirect, kChosen };

Ratios ratios(const MeshPtr& mesh, const TensorType& type, Form form) {
  Ratios result;
  const auto placements = placements_of(mesh, type.shape.size());
  for (const DistAttr& from : placements)
    for (const DistAttr& to : placements) {
      if (from == to) continue;
      const auto way = form == Form::kDirect
                           ? std::vector<Exchange>{{ReshardKind::kMessages, from, to}}
                           : plan_reshard(type, from, to);
      int64_t received = 0, bound = 0;
      for (Rank rank : mesh->ranks()) {
        received = std::max(received, received_elements(type.shape, way, rank));
        bound = std::max(bound, min_received_elements(type.shape, from, to, rank));
      }
      result.add(received, bound, way.size() > 1);
    }
  return result;
}

struct Row {
  const char* mesh;
  int rank;
  // Mean and worst of: greedy by axis | shortest chain | that with permutes | gather all and slice.
  const char* published;
};

int run() {
  const Row rows[] = {{"a=2 b=4", 2, "2.15/8.0  1.48/4.6  1.21/3.0  3.6"},
                      {"a=4 b=4", 2, "2.86/16   1.93/6.4  1.13/2.7  6.5"},
                      {"a=2 b=2 c=2", 3, "2.27/8.0  1.38/3.3  1.21/3.0  4.6"},
                      {"a=2 b=4 c=8", 3, "12.5/64   1.64/4.3  1.40/3.2  31"}};
  std::printf(
      "most received / must be received, over all ordered pairs of placements; the published "
      "figures are of DTensor's greedy way, a\n"
      "shortest chain of all-gather, all-to-all and slice, the same with permutes, and Paddle's "
      "n-D way\n\n");
  std::printf("%-12s %-15s %6s  %-12s %-28s  %s\n", "mesh", "tensor", "pairs", "direct",
              "chosen by cost (chains)", "published: mean/worst");
  for (const Row& row : rows) {
    const auto mesh = std::make_shared<const Mesh>(parse_mesh(row.mesh));
    for (int64_t extent : {int64_t{64}, row.rank == 2 ? int64_t{4096} : int64_t{256}}) {
      const TensorType type{DType::kF32, Dims::filled(row.rank, extent)};
      const Ratios direct = ratios(mesh, type, Form::kDirect),
                   chosen = ratios(mesh, type, Form::kChosen);
      std::printf("%-12s f32[%s]%*s %6d  %4.2f/%-4.2f    %4.2f/%-4.2f (%d)%*s  %s\n", row.mesh,
                  to_text(type.shape).c_str(), static_cast<int>(10 - to_text(type.shape).size()),
                  "", direct.pairs, direct.sum / direct.pairs, direct.worst,
                  chosen.sum / chosen.pairs, chosen.worst, chosen.chains, 10, "", row.published);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run();
}
