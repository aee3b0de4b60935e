#include "base/files/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// A file with a [train] table.
Document document() {
  return parse_toml(
      "[train]\n"
      "steps = 100\n"
      "rate = 0.5\n"
      "whole = 2\n"
      "resume = true\n"
      "out = \"runs/a\"\n"
      "kind = \"adamw\"\n"
      "marks = [\"a\", \"b\"]\n"
      "mixed = [\"a\", 1]\n"
      "[train.schedule]\n"
      "warmup = 7\n",
      "train.toml");
}

template <typename Function>
std::string message_of(Function function) {
  const Document whole = document();
  ConfigTable file(&whole, "", "train.toml");
  ConfigTable table = file.table("train");
  try {
    function(table);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(ConfigTable, ReadsEveryKindOfValue) {
  const Document whole = document();
  ConfigTable file(&whole, "", "train.toml");
  ConfigTable table = file.table("train");
  EXPECT_EQ(table.integer("steps", 1, 0, 1000), 100);
  EXPECT_EQ(table.number("rate", 1, 0, 1), 0.5);
  EXPECT_EQ(table.number("whole", 1, 0, 2),
            2.0);  // an integer is a number, and the bounds belong to the range
  EXPECT_TRUE(table.boolean("resume", false));
  EXPECT_EQ(table.text("out", ""), "runs/a");
  EXPECT_EQ(table.choice("kind", "sgd", {"sgd", "adamw"}), "adamw");
  EXPECT_THAT(table.texts("marks", {}), ElementsAre("a", "b"));
  EXPECT_THAT(table.texts("out", {}), ElementsAre("runs/a"));  // one text counts as a list of one
  EXPECT_EQ(table.table("schedule").integer("warmup", 0, 0, 10), 7);
  EXPECT_EQ(table.file(), "train.toml");
}

TEST(ConfigTable, WhatIsAbsentHasItsDefault) {
  ConfigTable table(nullptr, "train", "train.toml");
  EXPECT_EQ(table.integer("steps", 1, 0, 1000), 1);
  EXPECT_EQ(table.number("rate", 0.25, 0, 1), 0.25);
  EXPECT_TRUE(table.boolean("resume", true));
  EXPECT_EQ(table.text("out", "here"), "here");
  EXPECT_EQ(table.choice("kind", "sgd", {"sgd", "adamw"}), "sgd");
  EXPECT_THAT(table.texts("marks", {"x"}), ElementsAre("x"));
  EXPECT_EQ(table.table("schedule").integer("warmup", 5, 0, 10), 5);
  EXPECT_EQ(table.raw("steps"), nullptr);
  EXPECT_NO_THROW(table.finish());
}

TEST(ConfigTable, RecordsAValueThatTheCallerReadsInTheFormThatItGives) {
  std::vector<ReadKey> keys;
  const Document plan = parse_json(R"({"marks": [{}, {"op": "y"}], "class": {"gemm": {}}})", "p");
  ConfigTable table(&plan, "", "p", &keys);
  const Document* marks = table.raw("marks", {.type = "list of tables", .fallback = "[]"});
  table.inside(marks->as_list()[1], "marks[1]", "marks[]").text("op", "");
  ConfigTable kind = table.table("class");
  kind.raw("gemm", {.range = "a class", .listed = "CLASS"});
  kind.table("gemm", "CLASS").integer("rate", 1, 0, 9);
  EXPECT_THAT(keys, ElementsAre(ReadKey{"marks", "list of tables", "[]", ""},
                                ReadKey{"marks[].op", "text", "\"\"", ""},
                                ReadKey{"class.CLASS", "table", "", "a class"},
                                ReadKey{"class.CLASS.rate", "integer", "1", "0 to 9"}));
}

TEST(ConfigTable, NamesAKeyOfAnItemByItsPositionInMessages) {
  const Document plan = parse_json(R"({"marks": [{}, {"op": 7}]})", "p");
  ConfigTable table(&plan, "", "p");
  ConfigTable mark = table.inside(table.raw("marks")->as_list()[1], "marks[1]", "marks[]");
  EXPECT_EQ(mark.full("op"), "marks[1].op");
}

TEST(ConfigTable, AnIntegerOutOfRangeIsRefusedWithTheRange) {
  EXPECT_EQ(message_of([](ConfigTable& table) { table.integer("steps", 1, 1, 99); }),
            "train.toml: train.steps = 100 is not possible\n"
            "  why: train.steps must be an integer from 1 to 99\n"
            "  fix: set train.steps to such a value");
  EXPECT_EQ(message_of([](ConfigTable& table) { table.integer("steps", 1, 100, 100); }),
            "no error");
}

TEST(ConfigTable, AFractionIsNoInteger) {
  EXPECT_EQ(message_of([](ConfigTable& table) { table.integer("rate", 1, 0, 9); }),
            "train.toml: train.rate = 0.5 is not possible\n"
            "  why: train.rate must be an integer from 0 to 9\n"
            "  fix: set train.rate to such a value");
}

TEST(ConfigTable, ANumberOutOfRangeIsRefusedWithTheRange) {
  EXPECT_EQ(message_of([](ConfigTable& table) { table.number("rate", 0, 0, 0.25); }),
            "train.toml: train.rate = 0.5 is not possible\n"
            "  why: train.rate must be a number from 0.0 to 0.25\n"
            "  fix: set train.rate to such a value");
}

TEST(ConfigTable, NotANumberIsInNoRange) {
  const Document whole = parse_toml("rate = nan\n", "a.toml");
  ConfigTable table(&whole, "", "a.toml");
  EXPECT_THROW(table.number("rate", 0, 0, std::numeric_limits<double>::infinity()), UserError);
}

TEST(ConfigTable, AValueOfAnotherKindIsRefused) {
  EXPECT_EQ(message_of([](ConfigTable& table) { table.boolean("steps", false); }),
            "train.toml: train.steps = 100 is not possible\n"
            "  why: train.steps must be true or false\n"
            "  fix: set train.steps to such a value");
  EXPECT_EQ(message_of([](ConfigTable& table) { table.text("steps", ""); }),
            "train.toml: train.steps = 100 is not possible\n"
            "  why: train.steps must be a text\n"
            "  fix: set train.steps to such a value");
  EXPECT_EQ(message_of([](ConfigTable& table) { table.texts("mixed", {}); }),
            "train.toml: train.mixed = [\"a\",1] is not possible\n"
            "  why: train.mixed must be a text or a list of texts\n"
            "  fix: set train.mixed to such a value");
}

TEST(ConfigTable, AnUnknownChoiceListsTheLegalOnes) {
  EXPECT_EQ(
      message_of([](ConfigTable& table) { table.choice("kind", "sgd", {"sgd", "momentum"}); }),
      "train.toml: train.kind = \"adamw\" is not possible\n"
      "  why: train.kind must be one of sgd, momentum\n"
      "  fix: set train.kind to such a value");
}

TEST(ConfigTable, AValueWhereATableBelongsIsRefused) {
  EXPECT_EQ(message_of([](ConfigTable& table) { table.table("steps"); }),
            "train.toml: 'train.steps' is an integer\n"
            "  why: it must be a table\n"
            "  fix: write [train.steps] and its keys below it");
}

TEST(ConfigTable, AJsonFileIsToldToHoldAnObject) {
  const auto message_at = [](const std::string& text, const std::string& path) -> std::string {
    const Document document = parse_json(text, "p.json");
    try {
      ConfigTable(&document, path, "p.json");
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message_at("null", ""),
            "p.json: the whole is nothing\n"
            "  why: it must be an object\n"
            "  fix: write {\"KEY\": VALUE, ...} in its place");
  EXPECT_THAT(message_at("[]", "marks[0]"), testing::HasSubstr("p.json: 'marks[0]' is a list\n"));
  EXPECT_EQ(message_at("{}", ""), "");
}

TEST(ConfigTable, AKeyThatNobodyAskedForIsRefusedWithTheNearest) {
  const Document whole = parse_toml("[model]\nwidht = 8\n", "a.toml");
  ConfigTable file(&whole, "", "a.toml");
  ConfigTable table = file.table("model");
  table.integer("width", 1, 1, 9);
  table.integer("layers", 1, 1, 9);
  try {
    table.finish();
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "a.toml: unknown key 'model.widht'\n"
                 "  why: legal keys here are layers, width\n"
                 "  fix: did you mean 'model.width'?");
  }
}

TEST(ConfigTable, AFormerKeyIsRefusedWithItsNewName) {
  EXPECT_EQ(message_of([](ConfigTable& table) {
              const Renamed keys[] = {{"speed", "pace"}, {"rate", "learning_rate"}};
              table.refuse_renamed(keys);
            }),
            "train.toml: the key 'train.rate' has a new name\n"
            "  why: it is now called 'train.learning_rate'\n"
            "  fix: write 'train.learning_rate' instead");
}

TEST(ConfigTable, AFormerValueIsRefusedWithItsNewName) {
  EXPECT_EQ(message_of([](ConfigTable& table) {
              const Renamed values[] = {{"adamw", "adam-w"}};
              table.choice("kind", "sgd", {"sgd", "adam-w"}, values);
            }),
            "train.toml: train.kind = \"adamw\" has a new name\n"
            "  why: the value 'adamw' is now called 'adam-w'\n"
            "  fix: set train.kind to 'adam-w'");
}

TEST(ConfigTable, AKeyLikeNoOtherIsRefusedWithoutAGuess) {
  const Document whole = parse_toml("colour = 8\n", "a.toml");
  ConfigTable table(&whole, "", "a.toml");
  table.integer("width", 1, 1, 9);
  try {
    table.finish();
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "a.toml: unknown key 'colour'\n"
                 "  why: legal keys here are width\n"
                 "  fix: remove it or use one of these");
  }
}

TEST(ConfigTable, AnIntegerThatIsWrittenAsANumberIsNamed) {
  const Document whole = parse_toml("a = 1e6\nb = 2.5\nc = 1e6\nd = 1e300\n", "f.toml");
  const auto fix_of = [&](const std::string& key, int64_t largest) -> std::string {
    ConfigTable table(&whole, "", "f.toml");
    try {
      table.integer(key, 0, 0, largest);
    } catch (const UserError& error) {
      return error.fix();
    }
    return "no error";
  };
  EXPECT_EQ(fix_of("a", 1'000'000), "did you mean '1000000'?");
  EXPECT_EQ(fix_of("b", 1'000'000), "set b to such a value");
  EXPECT_EQ(fix_of("c", 999'999), "set c to such a value");
  EXPECT_EQ(fix_of("d", std::numeric_limits<int64_t>::max()), "set d to such a value");
}

TEST(ConfigTable, AnOverriddenKeyIsNotBlamedOnTheFile) {
  ConfigOrigin origin("f.toml");
  origin.overridden = {"train.steps", "model.heads", "modelling.x"};
  EXPECT_EQ(origin.at("train.steps"), "--set");
  EXPECT_EQ(origin.at("train"), "--set");  // the file need not have this table
  EXPECT_EQ(origin.at("train.step"), "f.toml");
  EXPECT_EQ(origin.at("train.steps.x"), "f.toml");
  EXPECT_EQ(origin.at("model.width"), "f.toml");
  EXPECT_EQ(origin.at("mode"), "f.toml");
}

}  // namespace
}  // namespace tessera
