#include "tools/cli/internal/command_line.h"

#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>

#include "base/error.h"
#include "tools/cli/internal/commands/explain.h"
#include "tools/cli/internal/commands/generate.h"
#include "tools/cli/internal/commands/launch.h"
#include "tools/cli/internal/commands/predict.h"
#include "tools/cli/internal/commands/train.h"
#include "tools/cli/internal/commands/verify.h"

namespace tessera {
namespace {

/// The command of a command line, with its options set.
template <typename AnyCommand>
AnyCommand parsed(const std::vector<std::string>& words) {
  const CommandLine line = parse_command_line(words);
  return dynamic_cast<const AnyCommand&>(*std::get<ParsedCommand>(line).command);
}

std::string text_of(const std::vector<std::string>& words) {
  return std::get<std::string>(parse_command_line(words));
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

TEST(ContinueCommand, IsTheCommandWithResumeInPlaceOfItsOwn) {
  EXPECT_EQ(continue_command({"a.toml", "--set", "train.batch=4", "model.width=16", "--steps", "9",
                              "--plan", "dp=2", "--out", "my run"}),
            "train a.toml --set train.batch=4 model.width=16 --steps 9 --plan dp=2 --out 'my run' "
            "--resume");
  EXPECT_EQ(continue_command({"a.toml", "--resume", "--out", "r"}),
            "train a.toml --out r --resume");
  EXPECT_EQ(continue_command({"a.toml", "--resume=old/step-00000004", "--out", "r"}),
            "train a.toml --out r --resume");
  const auto command = parsed<TrainCommand>({"train", "--steps=3", "a b.toml", "--out", "r"});
  EXPECT_EQ(continue_command(command.words), "train --steps=3 'a b.toml' --out r --resume");
}

TEST(CommandLine, OptionsMayStandBeforeAndAfterTheConfiguration) {
  const auto before = parsed<TrainCommand>(
      {"train", "--plan", "p.json", "--ranks=4", "--cost", "m.toml", "c.toml"});
  const auto after =
      parsed<TrainCommand>({"train", "c.toml", "--ranks", "4", "--plan=p.json", "--cost=m.toml"});
  for (const TrainCommand& train : {before, after}) {
    EXPECT_EQ(train.config.file, "c.toml");
    EXPECT_EQ(train.config.plan.plan, "p.json");
    EXPECT_EQ(train.config.plan.ranks, 4);
    EXPECT_EQ(train.config.cost, "m.toml");
    EXPECT_FALSE(train.output.json);
  }
}

TEST(CommandLine, OptionsThatAreNotGivenAreEmpty) {
  const auto verify = parsed<VerifyCommand>({"verify", "c.toml"});
  EXPECT_EQ(verify.config.plan.plan, std::nullopt);
  EXPECT_EQ(verify.config.plan.ranks, std::nullopt);
  EXPECT_EQ(verify.steps, std::nullopt);
  EXPECT_TRUE(verify.config.overrides.sets.empty());
}

TEST(CommandLine, EachDisablePassAddsAPass) {
  const auto explain =
      parsed<ExplainCommand>({"explain", "--disable-pass", "buckets", "c.toml",
                              "--disable-pass=prefetch", "blocks.*", "--verify-passes"});
  EXPECT_EQ(explain.compilation.disabled, (std::vector<std::string>{"buckets", "prefetch"}));
  EXPECT_TRUE(explain.compilation.verify);
  EXPECT_EQ(explain.name, "blocks.*");
  EXPECT_TRUE(parsed<TrainCommand>({"train", "c.toml"}).compilation.disabled.empty());
  EXPECT_FALSE(parsed<VerifyCommand>({"verify", "c.toml"}).compilation.verify);
}

TEST(CommandLine, OneSetTakesSeveralOverridesAndLeavesOtherWordsAlone) {
  const auto explain = parsed<ExplainCommand>({"explain", "--set", "train.steps=3", "train.batch=2",
                                               "c.toml", "--set", "model.width=8", "blocks.*"});
  EXPECT_EQ(explain.config.overrides.sets,
            (std::vector<std::string>{"train.steps=3", "train.batch=2", "model.width=8"}));
  EXPECT_EQ(explain.config.file, "c.toml");
  EXPECT_EQ(explain.name, "blocks.*");
}

TEST(CommandLine, TheGeneralHelpListsTheCommandsAndTheExitCodes) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"-h"}, {"help"}}) {
    const std::string text = text_of(words);
    for (const CommandEntry& entry : commands())
      EXPECT_NE(text.find(std::string("  ") + entry.name + " "), std::string::npos) << entry.name;
    EXPECT_NE(text.find("6  verification failed"), std::string::npos);
  }
}

TEST(CommandLine, TheHelpOfACommandListsItsOptionsWithoutTheExitCodes) {
  for (const CommandEntry& entry : commands()) {
    const std::string text = text_of({"help", entry.name});
    EXPECT_EQ(text, text_of({entry.name, "--help"}));
    EXPECT_EQ(text, text_of({entry.name, "-h"}));
    EXPECT_NE(text.find(std::string("Usage: tessera ") + entry.name), std::string::npos);
    EXPECT_EQ(text.find("verification failed"), std::string::npos);
    EXPECT_EQ(text.find("{false}"), std::string::npos);
  }
  EXPECT_EQ(refused({"help", "trian"}),
            "tessera has no command 'trian' | did you mean 'tessera train'?");
}

TEST(CommandLine, TheVersionIsATextOfOneLine) {
  EXPECT_EQ(text_of({"--version"}), "tessera 0.1.0\n");
}

TEST(CommandLine, AnUnknownWordNamesTheNearestLegalOne) {
  EXPECT_EQ(refused({"explian", "c.toml"}),
            "tessera has no command 'explian' | did you mean 'tessera explain'?");
  EXPECT_EQ(refused({"explain", "c.toml", "--passe"}),
            "tessera explain: unknown option '--passe' | did you mean '--passes'?");
}

TEST(CommandLine, AnUnlikeOptionIsNoSuggestion) {
  EXPECT_EQ(
      refused({"simulate", "c.toml", "--cluster", "cpu:2", "--full"}),
      "tessera simulate: unknown option '--full' | remove it, or use another command; tessera "
      "simulate --help lists the options here");
  EXPECT_EQ(
      refused({"train", "--config", "c.toml"}),
      "tessera train: unknown option '--config' | write the file alone: tessera train my.toml");
  EXPECT_EQ(refused({"train", "c.toml", "--verify"}),
            "tessera train: unknown option '--verify' | did you mean '--verify-passes'?");
}

TEST(CommandLine, OutputsAreOutEverywhereAndFormerNamesStillWork) {
  for (const char* name : {"-o", "--out", "--output"})
    EXPECT_EQ(parsed<PredictCommand>({"predict", "r", "--data", "a", name, "b.npy"}).to, "b.npy");
  for (const char* name : {"-o", "--out"})
    EXPECT_EQ(parsed<TrainCommand>({"train", "c.toml", name, "r"}).out, "r");
  EXPECT_EQ(parsed<PredictCommand>({"predict", "r", "--data", "a", "--output=b.npy"}).to, "b.npy");
  EXPECT_TRUE(parsed<ExplainCommand>({"explain", "c.toml", "--stages"}).passes);
  EXPECT_EQ(text_of({"predict", "--help"}).find("--output"), std::string::npos);
}

TEST(CommandLine, EachHelpHasAnExampleThatIsParsed) {
  for (const CommandEntry& entry : commands()) {
    EXPECT_NE(
        text_of({entry.name, "--help"}).find(std::string("Example:\n  tessera ") + entry.name),
        std::string::npos);
    std::istringstream line(entry.example);
    std::vector<std::string> words;
    for (std::string word; line >> std::quoted(word, '\'');) words.push_back(word);
    words.erase(words.begin());
    EXPECT_NO_THROW(parse_command_line(words)) << entry.example;
  }
}

TEST(CommandLine, ANumberMustBeAWholeOneInItsRange) {
  EXPECT_EQ(refused({"train", "c.toml", "--steps", "1.5"}),
            "tessera train: --steps 1.5 is not valid | write --steps 1");
  EXPECT_EQ(refused({"train", "c.toml", "--ranks", "0"}),
            "tessera train: --ranks 0 is not valid | write --ranks 1");
  EXPECT_EQ(refused({"launch", "-n", "0", "--", "train", "c.toml"}),
            "tessera launch: --processes 0 is not valid | write --processes 1");
  EXPECT_EQ(parsed<TrainCommand>({"train", "c.toml", "--steps", "0"}).steps, 0);
}

TEST(CommandLine, AnOptionIsNotTheValueOfTheOneBeforeIt) {
  EXPECT_EQ(refused({"train", "c.toml", "--plan", "--json"}),
            "tessera train: --plan has no value | write the value after --plan");
  EXPECT_EQ(refused({"train", "c.toml", "--set"}),
            "tessera train: --set has no value | write the value after --set");
}

TEST(CommandLine, JsonMayStandBeforeTheCommand) {
  EXPECT_TRUE(parsed<TrainCommand>({"--json", "train", "c.toml"}).output.json);
  EXPECT_EQ(
      refused({"--json"}),
      "tessera was given no command | start with tessera demo; tessera help says what each does");
}

TEST(CommandLine, ResumeIsAFlagThatMayNameACheckpoint) {
  EXPECT_EQ(parsed<TrainCommand>({"train", "c.toml", "--out", "r"}).resume, std::nullopt);
  const auto latest = parsed<TrainCommand>({"train", "--resume", "c.toml", "--out", "r"});
  EXPECT_EQ(latest.resume, "");  // the configuration is not its value
  EXPECT_EQ(latest.config.file, "c.toml");
  EXPECT_EQ(
      parsed<TrainCommand>({"train", "c.toml", "--resume=r/checkpoints/step-00000002"}).resume,
      "r/checkpoints/step-00000002");
  EXPECT_EQ(refused({"train", "c.toml", "--resume"}),
            "--resume does not say from where | add --out DIR of the run to continue, or name a "
            "checkpoint: --resume=DIR/checkpoints/step-00000100");
}

TEST(CommandLine, AValueOfResumeAfterASpaceIsToldToBeJoined) {
  const std::string said =
      "tessera train: --resume r/step-00000002 has a space before the value | write "
      "--resume=r/step-00000002";
  EXPECT_EQ(refused({"train", "c.toml", "--resume", "r/step-00000002"}), said);
  EXPECT_EQ(refused({"train", "--resume", "r/step-00000002", "c.toml"}), said);
  EXPECT_EQ(refused({"train", "c.toml", "--resume", "r/step-00000002", "--steps", "3"}), said);
  EXPECT_EQ(refused({"train", "c.toml", "d.toml", "--resume", "--steps", "3"}),
            "tessera train: 'd.toml' is one argument too many | remove it, or write the option "
            "that it belongs to before it");
}

TEST(CommandLine, StepsOfATraceNeedItsFile) {
  EXPECT_EQ(refused({"train", "c.toml", "--trace-steps", "5"}),
            "--trace-steps has no --trace | add --trace FILE, or remove --trace-steps");
  EXPECT_EQ(
      parsed<TrainCommand>({"train", "c.toml", "--trace", "t", "--trace-steps=5"}).trace_steps, 5);
  EXPECT_EQ(parsed<TrainCommand>({"train", "c.toml", "--trace", "t"}).trace_steps, std::nullopt);
}

TEST(CommandLine, GenerateTakesATextAndHowToSample) {
  const auto plain = parsed<GenerateCommand>({"generate", "r", "--prompt", "a b"});
  EXPECT_EQ(plain.prompt, "a b");
  EXPECT_EQ(plain.tokens, 100);
  EXPECT_EQ(plain.sampling.temperature, 1);
  EXPECT_EQ(plain.sampling.top_k, 0);
  EXPECT_EQ(plain.sampling.top_p, 1);
  EXPECT_TRUE(plain.sampling.cache);
  const auto full = parsed<GenerateCommand>({"generate", "--prompt", "a", "r", "--temperature",
                                             "0.5", "--top-k", "4", "--top-p", "0.9", "--seed", "7",
                                             "--tokens", "3", "--no-cache"});
  EXPECT_EQ(full.checkpoint.path, "r");
  EXPECT_EQ(full.tokens, 3);
  EXPECT_EQ(full.sampling.temperature, 0.5);
  EXPECT_EQ(full.sampling.top_k, 4);
  EXPECT_EQ(full.sampling.top_p, 0.9);
  EXPECT_EQ(full.sampling.seed, 7u);
  EXPECT_FALSE(full.sampling.cache);
  EXPECT_EQ(refused({"generate", "r", "--prompt", "a", "--seed", "-1"}),
            "tessera generate: --seed -1 is not valid | write --seed 1");
  EXPECT_EQ(refused({"eval", "r", "--prompt", "a"}),
            "tessera eval: unknown option '--prompt' | remove it, or use another command; tessera "
            "eval --help lists the options here");
}

TEST(CommandLine, PredictTakesDataAndAFileOfAKnownFormat) {
  const auto predict =
      parsed<PredictCommand>({"predict", "r", "--data", "a.npz:x", "-o", "out.npy", "--classes"});
  EXPECT_EQ(predict.data, "a.npz:x");
  EXPECT_EQ(predict.to, "out.npy");
  EXPECT_TRUE(predict.classes);
  EXPECT_EQ(parsed<PredictCommand>({"predict", "r", "--data", "a", "--output", "b.jsonl"}).to,
            "b.jsonl");
  EXPECT_EQ(refused({"predict", "r", "--data", "a", "-o", "out.csv"}),
            "'out.csv' has no ending that says its format | give a name that ends in .npy or "
            ".jsonl");
}

TEST(CommandLine, LaunchPassesOnNoWordThatStartsAnotherProgram) {
  const std::string refusal =
      "tessera launch cannot pass on the word ':' | leave it out; a longer text with a colon in it "
      "is passed on";
  EXPECT_EQ(refused({"launch", "-n", "2", "--", "train", "c.toml", ":", "-n", "1", "touch", "x"}),
            refusal);
  EXPECT_EQ(refused({"launch", "-n", "2", "--", "train", ":"}), refusal);
  EXPECT_EQ(refused({"launch", "--mpirun-args=-n 1 touch x :", "--", "train", "c.toml"}), refusal);
  EXPECT_EQ(parsed<LaunchCommand>({"launch", "--", "generate", "run", "--prompt=:"}).command.size(),
            3u);
}

TEST(CommandLine, LaunchStartsAsManyProcessesAsAJobCanHave) {
  EXPECT_EQ(refused({"launch", "-n", "99999999", "--", "train", "c.toml"}),
            "tessera launch: --processes 99999999 is not valid | write as many processes as the "
            "plan has ranks, or leave -n out");
  EXPECT_EQ(parsed<LaunchCommand>({"launch", "-n", "65536", "--", "train", "c.toml"}).process_count,
            65'536);
}

TEST(CommandLine, LaunchTakesACommandAfterDashes) {
  const auto launch = parsed<LaunchCommand>({"launch", "-n", "4", "--restarts", "1", "--", "train",
                                             "gpt.toml", "--out", "run", "--json"});
  EXPECT_EQ(launch.process_count, 4);
  EXPECT_EQ(launch.restarts, 1);
  EXPECT_EQ(launch.command,
            (std::vector<std::string>{"train", "gpt.toml", "--out", "run", "--json"}));
  EXPECT_EQ(refused({"launch", "-n", "4"}),
            "tessera launch is not told what to launch | write tessera launch -n 4 -- train CONFIG "
            "--plan FILE --out DIR");
  const auto of_the_plan = parsed<LaunchCommand>(
      {"launch", "--mpirun-args=--bind-to none", "--log-dir", "logs", "--", "train", "gpt.toml"});
  EXPECT_EQ(of_the_plan.process_count, std::nullopt);
  EXPECT_EQ(of_the_plan.launcher_arguments, std::vector<std::string>{"--bind-to none"});
  EXPECT_EQ(of_the_plan.log_folder, "logs");
  EXPECT_EQ(refused({"launch", "-n", "4", "--restarts", "-1", "--", "train", "gpt.toml"}),
            "tessera launch: --restarts -1 is not valid | write --restarts 1");
  EXPECT_NE(text_of({"launch", "--help"}).find("[OPTIONS] -- COMMAND ARGUMENTS..."),
            std::string::npos);
}

TEST(CommandLine, DemoTakesNoConfiguration) {
  EXPECT_EQ(refused({"demo", "c.toml"}),
            "tessera demo: 'c.toml' is one argument too many | remove it, or write the option that "
            "it belongs to before it");
}

}  // namespace
}  // namespace tessera
