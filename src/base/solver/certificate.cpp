#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/solver/internal/dual.h"

namespace tessera::solver {
namespace {

constexpr Wide kMessageUnit = Wide{1} << (Dual::kPriceBits - Dual::kMessageBits);

Wide scaled(double whole) {
  return static_cast<Wide>(whole) << Dual::kPriceBits;
}

}  // namespace

Wide certified_bound(const Core& core, const Dual::Certificate& certificate) {
  Wide sum = scaled(core.constant);
  std::vector<Wide> until{0};
  for (size_t m = 0; m < core.limits.size(); ++m) {
    ensure(certificate.prices[m] >= 0, "prices of memory are not negative");
    until.push_back(until.back() + certificate.prices[m]);
    sum -= Wide{certificate.prices[m]} * core.limits[m];
  }
  std::vector<std::vector<Wide>> own(core.nodes());
  for (int32_t i = 0; i < core.nodes(); ++i) {
    for (const double cost : core.costs_of(i)) own[i].push_back(scaled(cost));
    for (const Core::Piece& piece : core.pieces(i))
      for (int32_t s = 0; s < core.strategies(i); ++s)
        own[i][s] += (until[piece.end] - until[piece.begin]) * core.usages(piece)[s];
  }
  for (size_t e = 0; e < core.edges.size(); ++e) {
    const Core::Edge& edge = core.edges[e];
    Wide smallest = static_cast<Wide>(~static_cast<unsigned __int128>(0) >> 1);
    for (int32_t s = 0; s < core.strategies(edge.a); ++s)
      for (int32_t t = 0; t < core.strategies(edge.b); ++t) {
        const double cost = core.row(edge.rows_of_a, s, core.strategies(edge.b))[t];
        if (cost < kNever)
          smallest = std::min(
              smallest, scaled(cost) -
                            kMessageUnit * (Wide{certificate.to_a[e][s]} + certificate.to_b[e][t]));
      }
    sum += smallest;
    for (int32_t s = 0; s < core.strategies(edge.a); ++s)
      own[edge.a][s] += kMessageUnit * certificate.to_a[e][s];
    for (int32_t t = 0; t < core.strategies(edge.b); ++t)
      own[edge.b][t] += kMessageUnit * certificate.to_b[e][t];
  }
  for (const std::vector<Wide>& costs : own) sum += std::ranges::min(costs);
  // Costs are whole numbers, so the least cost is whole too, and the bound is rounded up.
  const Wide unit = Wide{1} << Dual::kPriceBits;
  const Wide down = sum >= 0 ? sum / unit : -((-sum + unit - 1) / unit);
  return down * unit == sum ? down : down + 1;
}

}  // namespace tessera::solver
