#include "sharding/reshard/transfer_cache.h"

#include <gtest/gtest.h>

#include "sharding/layout/mesh.h"

namespace tessera {
namespace {

MeshPtr square_of(std::vector<Rank> ranks) {
  return std::make_shared<const Mesh>(Shape{2, 2}, std::vector<std::string>{"x", "y"},
                                      std::move(ranks));
}

DistAttr divided(const MeshPtr& mesh, int dim, std::vector<int> axes, int64_t chunks = 1) {
  DistAttr attr = DistAttr::replicated(mesh, 2);
  attr.dims[dim].axes = std::move(axes);
  attr.dims[dim].chunks = chunks;
  return attr;
}

std::vector<Exchange> exchanges() {
  const Shape shape{8, 12};
  const MeshPtr mesh = square_of({0, 1, 2, 3}), other = square_of({4, 5, 6, 7});
  std::vector<DistAttr> attrs{DistAttr::replicated(mesh, 2), divided(mesh, 0, {0}),
                              divided(mesh, 0, {1}), divided(mesh, 1, {0, 1}),
                              divided(mesh, 1, {0}, 3)};
  std::vector<Exchange> list;
  for (const DistAttr& from : attrs)
    for (const DistAttr& to : attrs) list.push_back(classified(shape, from, to));
  list.push_back(classified(shape, attrs[1], divided(other, 1, {1})));
  DistAttr partial = DistAttr::replicated(mesh, 2);
  partial.partial.push_back({0, ReduceOp::kSum});
  list.push_back(classified(shape, partial, attrs[0]));
  list.push_back(classified(shape, partial, attrs[1]));
  return list;
}

TEST(TransferCache, AreThoseOfTheExchange) {
  TransferCache known;
  for (int round = 0; round < 2; ++round)
    for (const Exchange& exchange : exchanges())
      for (Rank receiver = 0; receiver < 8; ++receiver) {
        const auto wanted = recv_elements({8, 12}, exchange, receiver);
        const auto& found = known.at({8, 12}, exchange, receiver);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_EQ(found[i].sender, wanted[i].sender);
          EXPECT_EQ(found[i].count, wanted[i].count);
        }
      }
}

TEST(TransferCache, ExchangesOfOneClassHaveEqualShapesAndPlacements) {
  TransferCache known;
  const std::vector<Exchange> list = exchanges();
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(known.class_of({8, 12}, list[i]).value(), static_cast<int>(i));
    EXPECT_EQ(known.class_of({8, 12}, Exchange(list[i])).value(), static_cast<int>(i));
  }
  EXPECT_EQ(known.class_of({12, 8}, list[0]).value(), std::ssize(list));
}

}  // namespace
}  // namespace tessera
