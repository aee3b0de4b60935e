#include "cli/arguments.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

Arguments parsed(const std::vector<std::string>& words) {
  return std::get<Arguments>(parse_command_line(words));
}

std::string refused(const std::vector<std::string>& words) {
  try {
    parse_command_line(words);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.what_happened() + " | " + error.fix();
  }
  return "";
}

TEST(Arguments, OptionsMayStandBeforeAndAfterTheConfiguration) {
  const Arguments before = parsed({"train", "--plan", "p.json", "--ranks=4", "c.toml"});
  const Arguments after = parsed({"train", "c.toml", "--ranks", "4", "--plan=p.json"});
  for (const Arguments& arguments : {before, after}) {
    EXPECT_EQ(arguments.command, Command::kTrain);
    EXPECT_EQ(arguments.file, "c.toml");
    EXPECT_EQ(arguments.plan, "p.json");
    EXPECT_EQ(arguments.ranks, 4);
    EXPECT_FALSE(arguments.json);
  }
}

TEST(Arguments, WhatIsNotGivenIsEmpty) {
  const Arguments arguments = parsed({"verify", "c.toml"});
  EXPECT_EQ(arguments.plan, std::nullopt);
  EXPECT_EQ(arguments.ranks, std::nullopt);
  EXPECT_EQ(arguments.steps, std::nullopt);
  EXPECT_TRUE(arguments.sets.empty());
}

TEST(Arguments, OneSetTakesSeveralOverridesAndLeavesOtherWordsAlone) {
  const Arguments arguments = parsed({"explain", "--set", "train.steps=3", "train.batch=2",
                                      "c.toml", "--set", "model.width=8", "blocks.*"});
  EXPECT_EQ(arguments.sets,
            (std::vector<std::string>{"train.steps=3", "train.batch=2", "model.width=8"}));
  EXPECT_EQ(arguments.file, "c.toml");
  EXPECT_EQ(arguments.name, "blocks.*");
}

TEST(Arguments, HelpIsATextThatListsTheExitCodes) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"train", "--help"}, {"demo", "-h"}}) {
    const auto line = parse_command_line(words);
    ASSERT_TRUE(std::holds_alternative<std::string>(line));
    EXPECT_NE(std::get<std::string>(line).find("6  verification failed"), std::string::npos);
  }
}

TEST(Arguments, TheVersionIsATextOfOneLine) {
  EXPECT_EQ(std::get<std::string>(parse_command_line({"--version"})), "tessera 0.1.0\n");
}

TEST(Arguments, AnUnknownWordNamesTheNearestLegalOne) {
  EXPECT_EQ(refused({"explian", "c.toml"}),
            "tessera has no command 'explian' | did you mean 'tessera explain'?");
  EXPECT_EQ(refused({"explain", "c.toml", "--stage"}),
            "tessera explain: unknown option '--stage' | did you mean '--stages'?");
}

TEST(Arguments, ANumberMustBeAWholeOneInItsRange) {
  EXPECT_EQ(refused({"train", "c.toml", "--steps", "1.5"}),
            "--steps 1.5 is not possible | write --steps 1");
  EXPECT_EQ(refused({"train", "c.toml", "--ranks", "0"}),
            "--ranks 0 is not possible | write --ranks 2");
  EXPECT_EQ(parsed({"train", "c.toml", "--steps", "0"}).steps, 0);
}

TEST(Arguments, AnOptionIsNotTheValueOfTheOneBeforeIt) {
  EXPECT_EQ(refused({"train", "c.toml", "--plan", "--json"}),
            "tessera train: --plan has no value | write the value after --plan");
  EXPECT_EQ(refused({"train", "c.toml", "--set"}),
            "tessera train: --set has no value | write the value after --set");
}

TEST(Arguments, JsonMayStandBeforeTheCommand) {
  EXPECT_TRUE(parsed({"--json", "train", "c.toml"}).json);
  EXPECT_EQ(
      refused({"--json"}),
      "tessera was given no command | start with tessera demo; tessera --help says what each does");
}

TEST(Arguments, ResumeIsAFlagThatMayNameACheckpoint) {
  EXPECT_EQ(parsed({"train", "c.toml", "--out", "r"}).resume, std::nullopt);
  EXPECT_EQ(parsed({"train", "--resume", "c.toml", "--out", "r"}).resume,
            "");  // the configuration is not its value
  EXPECT_EQ(parsed({"train", "--resume", "c.toml", "--out", "r"}).file, "c.toml");
  EXPECT_EQ(parsed({"train", "c.toml", "--resume=r/checkpoints/step-00000002"}).resume,
            "r/checkpoints/step-00000002");
  EXPECT_EQ(refused({"train", "c.toml", "--resume"}),
            "--resume does not say from where | add --out DIR of the run that is to go on, or name "
            "a checkpoint: "
            "--resume=DIR/checkpoints/step-00000100");
}

TEST(Arguments, GenerateTakesATextAndHowToDraw) {
  const Arguments plain = parsed({"generate", "r", "--prompt", "a b"});
  EXPECT_EQ(plain.prompt, "a b");
  EXPECT_EQ(plain.tokens, std::nullopt);
  EXPECT_EQ(plain.sampling.temperature, 1);
  EXPECT_EQ(plain.sampling.top_k, 0);
  EXPECT_EQ(plain.sampling.top_p, 1);
  const Arguments full = parsed({"generate", "--prompt", "a", "r", "--temperature", "0.5",
                                 "--top-k", "4", "--top-p", "0.9", "--seed", "7", "--tokens", "3"});
  EXPECT_EQ(full.file, "r");
  EXPECT_EQ(full.tokens, 3);
  EXPECT_EQ(full.sampling.temperature, 0.5);
  EXPECT_EQ(full.sampling.top_k, 4);
  EXPECT_EQ(full.sampling.top_p, 0.9);
  EXPECT_EQ(full.sampling.seed, 7u);
  EXPECT_EQ(refused({"generate", "r", "--prompt", "a", "--seed", "-1"}),
            "--seed -1 is not possible | write --seed 1");
  EXPECT_EQ(refused({"eval", "r", "--prompt", "a"}),
            "tessera eval: unknown option '--prompt' | remove it or use one of these");
}

TEST(Arguments, LaunchTakesACommandBehindDashes) {
  const Arguments arguments = parsed({"launch", "-n", "4", "--restarts", "1", "--", "train",
                                      "gpt.toml", "--out", "run", "--json"});
  EXPECT_EQ(arguments.command, Command::kLaunch);
  EXPECT_EQ(arguments.processes, 4);
  EXPECT_EQ(arguments.restarts, 1);
  EXPECT_FALSE(arguments.json);
  EXPECT_EQ(arguments.launched,
            (std::vector<std::string>{"train", "gpt.toml", "--out", "run", "--json"}));
  EXPECT_THROW(parsed({"launch", "-n", "4"}), UserError) << "nothing to launch";
  EXPECT_THROW(parsed({"launch", "--", "train", "gpt.toml"}), UserError)
      << "no number of processes";
  EXPECT_THROW(parsed({"launch", "-n", "4", "--restarts", "-1", "--", "train", "gpt.toml"}),
               UserError);
}

TEST(Arguments, DemoTakesNoConfiguration) {
  EXPECT_EQ(refused({"demo", "c.toml"}),
            "tessera demo: 'c.toml' is one argument too many | remove it, or write the option that "
            "it belongs to before it");
}

}  // namespace
}  // namespace tessera
