#include "base/tensor/einsum.h"

#include <gtest/gtest.h>

#include <optional>

namespace tessera {
namespace {

TEST(Einsum, ComesBackFromItsText) {
  for (const char* text : {"mk,kn->mn", "bqd,bkd->bqk", ",->", "ii->", "a,b,c->abc", "->"})
    EXPECT_EQ(to_text(parse_einsum(text).value()), text);
  const Einsum product = parse_einsum("mk,kn->mn").value();
  EXPECT_EQ(product.a(), "mk");
  EXPECT_EQ(product.b(), "kn");
  EXPECT_EQ(product.result, "mn");
}

TEST(Einsum, NeedsAnArrow) {
  EXPECT_EQ(parse_einsum("mk,kn"), std::nullopt);
  EXPECT_EQ(parse_einsum(""), std::nullopt);
}

TEST(Einsum, ALetterNamesADim) {
  EXPECT_TRUE(has_letter("bqd", 'q'));
  EXPECT_FALSE(has_letter("bqd", 'k'));
  EXPECT_EQ(dim_of_letter("bqd", 'd'), 2);
}

}  // namespace
}  // namespace tessera
