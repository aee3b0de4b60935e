#include "base/files/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Property;
using testing::StartsWith;
using testing::StrEq;
using testing::Throws;
using testing::ThrowsMessage;

auto throws_bad_config(const testing::Matcher<const char*>& message) {
  return Throws<UserError>(AllOf(Property(&UserError::what, message),
                                 Property(&UserError::exit_code, ExitCode::kBadConfig)));
}

TEST(Document, KnowsItsKind) {
  EXPECT_EQ(kind_of({}), "nothing");
  EXPECT_EQ(kind_of(true), "a boolean");
  EXPECT_EQ(kind_of(3), "an integer");
  EXPECT_EQ(kind_of(3.0), "a number");
  EXPECT_EQ(kind_of("text"), "a string");
  EXPECT_EQ(kind_of(Document::List{}), "a list");
  EXPECT_EQ(kind_of(Document::Table{}), "a table");
}

TEST(Document, GivesItsValueOrRefuses) {
  EXPECT_EQ(Document(true).as_bool(), true);
  EXPECT_EQ(Document(int64_t{1} << 40).as_int(), int64_t{1} << 40);
  EXPECT_EQ(Document(3).as_double(), 3.0);  // an integer counts
  EXPECT_EQ(Document("text").as_string(), "text");
  EXPECT_THAT([] { Document(3.5).as_int(); },
              ThrowsMessage<InternalError>("internal error: a document that is an integer"));
  EXPECT_THAT([] { Document("3").as_double(); },
              ThrowsMessage<InternalError>("internal error: a document that is a number"));
  EXPECT_THAT([] { Document(3).as_table(); },
              ThrowsMessage<InternalError>("internal error: a document that is a table"));
}

TEST(Document, ATableKeepsTheOrderOfItsKeys) {
  Document document;
  document["zeta"] = 1;
  document["alpha"]["deep"] = "text";
  document["zeta"] = 2;
  EXPECT_EQ(to_json(document), R"({"zeta":2,"alpha":{"deep":"text"}})");
  EXPECT_EQ(document.find("zeta")->as_int(), 2);
  EXPECT_EQ(document.find("beta"), nullptr);
  EXPECT_EQ(Document(3).find("zeta"), nullptr);
}

TEST(Document, AListGrows) {
  Document document;
  document.append(1);
  document.append("two");
  EXPECT_EQ(to_json(document), R"([1,"two"])");
}

TEST(Document, AValueIsNeitherTableNorList) {
  Document document(3);
  EXPECT_THROW(document["key"], InternalError);
  EXPECT_THROW(document.append(1), InternalError);
}

TEST(Toml, IsReadInTheOrderOfTheFile) {
  const Document document = parse_toml(
      "zeta = 1\n"
      "alpha = [1, 2.5, 'x', [true]]\n"
      "inline = {b = 1, a = 2}\n"
      "[section.inner]\n"
      "big = 1_000_000\n"
      "text = \"tab\\t\"\n"
      "[again]\n"
      "[[again.item]]\n"
      "n = 1\n"
      "[[again.item]]\n"
      "n = 2\n",
      "a.toml");
  EXPECT_EQ(
      to_json(document),
      R"({"zeta":1,"alpha":[1,2.5,"x",[true]],"inline":{"b":1,"a":2},)"
      R"("section":{"inner":{"big":1000000,"text":"tab\t"}},"again":{"item":[{"n":1},{"n":2}]}})");
}

TEST(Toml, IntegersAndNumbersStayApart) {
  const Document document = parse_toml("a = 3\nb = 3.0\nc = -9223372036854775808", "a.toml");
  EXPECT_TRUE(document.find("a")->is_int());
  EXPECT_TRUE(document.find("b")->is_double());
  EXPECT_EQ(document.find("c")->as_int(), std::numeric_limits<int64_t>::min());
}

TEST(Toml, DatesAreText) {
  EXPECT_EQ(*parse_toml("day = 2024-02-29", "a.toml").find("day"), Document("2024-02-29"));
}

TEST(Toml, AnErrorNamesFileLineAndColumn) {
  // On line 3 a value is missing. The error is reported at the end of the line, in column 9.
  EXPECT_THAT([] { parse_toml("a = 1\nb = 2\nbatch = \n", "run.toml"); },
              throws_bad_config(AllOf(StartsWith("run.toml:3:9: this is not TOML\n  why: "),
                                      HasSubstr("\n  fix: correct the file at that position"))));
}

TEST(Toml, CharactersBeyondAsciiAreInTextsAndCommentsOnly) {
  EXPECT_EQ(parse_toml("\xef\xbb\xbf# \xc3\xa9\na = \"\xc3\xa9\"\n'\xc3\xa9' = 2\n", "a.toml")
                .find("a")
                ->as_string(),
            "\xc3\xa9");
  for (const char* text : {"\xc3\xa9 = 1", "a = \xc3\xa9", "a = 1 \xc2\xa1", "a\xc2\xa0= 1",
                           "a = [1, \xd2\x99]", "a = 1\n\xff = 2"})
    EXPECT_THROW(parse_toml(text, "a.toml"), UserError) << text;
}

TEST(Toml, AQuoteInsideOfAWordBeginsNoText) {
  EXPECT_EQ(parse_toml("\xef\xbb\xbf'a'=\"\"\"\"\"\"\nb={c='d'}", "a.toml").as_table().size(), 2);
  for (const char* text : {"a = 8x(\"\xc6\x87(\"", "a = 8'\xc8\xbe'", "a = [1\"\xc3\xa9\"]"})
    EXPECT_THROW(parse_toml(text, "a.toml"), UserError) << text;
}

TEST(Toml, AKeyThatIsSetTwiceIsRefused) {
  EXPECT_THAT([] { parse_toml("a = 1\na = 2\n", "run.toml"); },
              throws_bad_config(StartsWith("run.toml:2:")));
}

TEST(Toml, ComesBackFromItsText) {
  const Document document = parse_toml(R"(
name = "a \"b\""
count = 3
part = 0.5
list = [1, 2]
[device.gpu]
kind = "gpu"
rates = {launch = "1 us", "64 kB" = "1 GB/s"}
[[machine]]
names = "n[0-3]"
links = [{name = "x", bandwidth = "1 GB/s"}, {name = "y"}]
[[machine]]
count = 2
)",
                                       "a.toml");
  EXPECT_EQ(parse_toml(to_toml(document), "b.toml"), document) << to_toml(document);
}

TEST(Json, ComesBackFromItsText) {
  Document document;
  document["null"] = {};
  document["flag"] = false;
  document["least"] = std::numeric_limits<int64_t>::min();
  document["most"] = std::numeric_limits<int64_t>::max();
  document["tenth"] = 0.1;
  document["whole"] = 3.0;  // stays a number, not an integer
  document["tiny"] = std::numeric_limits<double>::denorm_min();
  document["text"] = "quote \" slash \\ line \n euro €";
  document["list"] = Document::List{1, "two", Document::List{}, Document::Table{}};
  for (int indent : {-1, 0, 2})
    EXPECT_EQ(parse_json(to_json(document, indent), "a.json"), document);
}

TEST(Json, PrintsOnOneLineOrIndented) {
  Document document;
  document["a"] = 1;
  document["b"] = Document::List{0.1, 3.0};
  EXPECT_EQ(to_json(document), R"({"a":1,"b":[0.1,3.0]})");
  EXPECT_EQ(to_json(document, 2), "{\n  \"a\": 1,\n  \"b\": [\n    0.1,\n    3.0\n  ]\n}");
}

TEST(Json, WhatJsonHasNoNumbersForPrintsAsText) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_json(Document::List{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}),
            R"(["NaN","Infinity","-Infinity"])");
}

TEST(Json, BytesThatAreNotUtf8ArePrintedAsTheReplacementCharacter) {
  EXPECT_EQ(to_json("a\xff"), "\"a\xef\xbf\xbd\"");
}

TEST(Json, AnErrorNamesFileLineAndColumn) {
  // The misspelt word ends at the end of its line: line 2, column 9.
  EXPECT_THAT([] { parse_json("{\n\"a\": tru\n}", "plan.json"); },
              throws_bad_config(
                  AllOf(StartsWith("plan.json:2:9: this is not JSON\n"
                                   "  why: syntax error while parsing value - invalid literal"),
                        HasSubstr("\n  fix: correct the file at that position"))));
  EXPECT_THAT([] { parse_json("[1, 2", "plan.json"); },
              throws_bad_config(StartsWith("plan.json:1:6: this is not JSON\n")));
  EXPECT_THAT([] { parse_json("", "plan.json"); },
              throws_bad_config(StartsWith("plan.json:1:1: this is not JSON\n")));
}

TEST(Json, NumbersThatDoNotFitAreRefused) {
  EXPECT_EQ(parse_json("9223372036854775807", "a.json").as_int(),
            std::numeric_limits<int64_t>::max());
  EXPECT_THAT([] { parse_json("[9223372036854775808]", "a.json"); },
              throws_bad_config(StrEq("a.json: 9223372036854775808 is too large\n"
                                      "  why: integers go up to 9223372036854775807\n"
                                      "  fix: write a smaller one, or a number with a point")));
  EXPECT_THAT([] { parse_json("1e999", "a.json"); },
              throws_bad_config(StrEq("a.json: this is not JSON that can be read\n"
                                      "  why: number overflow parsing '1e999'\n"
                                      "  fix: correct the file")));
}

TEST(Json, AKeyThatIsGivenTwiceIsRefused) {
  for (const char* text : {R"({"a": 1, "a": 1})", R"({"b": {"a": 1, "\u0061": 2}})",
                           R"([{"a": {}, "b": 1, "a": {}}])"}) {
    std::string message;
    try {
      parse_json(text, "f.json");
    } catch (const UserError& error) {
      message = error.what_happened();
    }
    EXPECT_EQ(message, "'f.json' gives the key 'a' twice") << text;
  }
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "f.json"));
}

TEST(Json, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(200), "a.json"));
  EXPECT_THAT([&] { parse_json(nested(100000), "a.json"); },
              throws_bad_config(StrEq("a.json: this is nested too deeply\n"
                                      "  why: lists and tables may be nested 256 deep\n"
                                      "  fix: make the file flatter")));
}

TEST(Document, CommentsAreIgnoredWherePeopleWriteJson) {
  const char* text = "{ // degrees\n \"a\": 1, /* of two\n lines */ \"b\": \"//\" }";
  EXPECT_EQ(to_json(parse_commented_json(text, "plan.json")), "{\"a\":1,\"b\":\"//\"}");
  EXPECT_THROW(parse_json(text, "state.json"), UserError);
  EXPECT_THROW(parse_commented_json("{ /* no end", "plan.json"), UserError);
}

}  // namespace
}  // namespace tessera
