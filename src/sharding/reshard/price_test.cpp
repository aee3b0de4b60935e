#include "sharding/reshard/price.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Price price_of(std::string_view mesh_text, std::string_view from, std::string_view to,
               const LinkCosts& links) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(mesh_text));
  const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
  return price(a.type, classified(a.type.shape, a.attr, b.attr), links);
}

TEST(ReshardPrice, OfACollectiveIsThatOfItsRing) {
  // Direct messages take as many latencies as the ring has rounds, and as many bytes.
  const LinkCosts links{.any = {Seconds(0.25), 32}};
  EXPECT_EQ(price_of("d=4", "f32[64@d]", "f32[64]", links),
            ring_all_gather_price(Bytes(256), 4, links.any));
  EXPECT_EQ(price_of("d=4", "f32[64] {partial sum: d}", "f32[64@d]", links),
            ring_reduce_scatter_price(Bytes(256), 4, links.any));
  // Each rank has 64 of 256 bytes, 16 for each rank.
  EXPECT_EQ(price_of("d=4", "f32[16@d, 4]", "f32[16, 4@d]", links),
            all_to_all_price(Bytes(64), 4, links.any));
}

TEST(ReshardPrice, IsThatOfTheLinkOfTwoRanksOrOfTheirAxis) {
  // Each rank gets 16 bytes from the other one.
  LinkCosts links{.any = {Seconds(1), 16}};
  const auto made = [&] { return price_of("d=2", "f32[8@d]", "f32[8]", links); };
  EXPECT_EQ(made(), (Price{Seconds(1 + 1), Seconds(1)}));
  links.axes["d"] = {Seconds(3), 4};
  EXPECT_EQ(made(), (Price{Seconds(3 + 4), Seconds(4)}));
  links.pairs[{0, 1}] = {Seconds(0), 8};
  EXPECT_EQ(made(), (Price{Seconds(2), Seconds(2)}));
}

}  // namespace
}  // namespace tessera
