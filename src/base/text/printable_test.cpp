#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Printable, OrdinaryTextStays) {
  for (const char* text : {"", "a b\n\tc", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc2\xa0"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x1b[31mred\r\x7f\a"), "\\x1b[31mred\\x0d\\x7f\\x07");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");
}

}  // namespace
}  // namespace tessera
