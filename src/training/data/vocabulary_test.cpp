#include "training/data/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::throws_user_error;

using testing::ElementsAre;

TEST(Vocabulary, ATokenOfBytesIsTheByte) {
  const Vocabulary bytes = Vocabulary::bytes();
  EXPECT_EQ(bytes.size(), 256);
  EXPECT_THAT(bytes.encode("Az\xff"), ElementsAre(65, 122, 255));
}

TEST(Vocabulary, BytesComeBackFromTheirTokens) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Vocabulary bytes = Vocabulary::bytes();
  EXPECT_EQ(bytes.decode(bytes.encode(all)), all);
}

TEST(Vocabulary, ATokenOfCharactersIsTheRankOfItsCodePoint) {
  // b U+0062, e with acute U+00E9, the euro U+20AC, a face U+1F600: one to four bytes.
  const Vocabulary characters = Vocabulary::characters_of("€b😀éb€");
  EXPECT_EQ(characters.size(), 4);
  EXPECT_THAT(characters.encode("bé€😀"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(characters.encode("😀b"), ElementsAre(3, 0));
}

TEST(Vocabulary, CharactersComeBackFromTheirTokens) {
  const std::string text = "naïve façade – 数学 😀\n";
  const Vocabulary characters = Vocabulary::characters_of(text);
  EXPECT_EQ(characters.decode(characters.encode(text)), text);
}

TEST(Vocabulary, ATokenOutsideTheVocabularyIsAQuestionMark) {
  EXPECT_EQ(Vocabulary::bytes().decode({72, 256, 105, -1}), "H?i?");
  EXPECT_EQ(Vocabulary::characters_of("ab").decode({0, 2, 1, -1}), "a?b?");
}

TEST(Vocabulary, AnEmptyTextHasNoTokens) {
  EXPECT_THAT(Vocabulary::bytes().encode(""), ElementsAre());
  EXPECT_THAT(Vocabulary::characters_of("a").encode(""), ElementsAre());
  EXPECT_EQ(Vocabulary::characters_of("a").decode({}), "");
}

TEST(Vocabulary, AnUnknownCharacterIsNamedWithItsPlace) {
  // "aé" takes bytes 0 to 2; the euro begins at 3 and takes three.
  const Vocabulary characters = Vocabulary::characters_of("aé");
  EXPECT_THAT([&] { characters.encode("aé€"); },
              throws_user_error(
                  "the character U+20AC at offset 3 of 6 bytes is not in the vocabulary\n"
                  "  why: the vocabulary holds the 2 characters of the text that it was made of\n"
                  "  fix: leave the character out, make the vocabulary of all the text, or use the "
                  "vocabulary of bytes",
                  ExitCode::kBadData));
}

TEST(Vocabulary, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const std::string rest =
      "\n  why: a vocabulary of characters reads its text as UTF-8"
      "\n  fix: convert the text to UTF-8, or use the vocabulary of bytes";
  EXPECT_THAT(
      [] { Vocabulary::characters_of("ab\xe9z"); },
      throws_user_error("the text is not UTF-8: byte 0xe9 at offset 2" + rest, ExitCode::kBadData));
  EXPECT_THAT(
      [] { Vocabulary::characters_of("a").encode("aa\x80"); },
      throws_user_error("the text is not UTF-8: byte 0x80 at offset 2" + rest, ExitCode::kBadData));
}

TEST(Vocabulary, TheFirstByteThatIsNotUtf8IsFound) {
  EXPECT_EQ(first_not_utf8("ab\xe9z"), 2u);
  EXPECT_EQ(first_not_utf8("a\xe2\x82"), 1u);  // a euro without its last byte
  EXPECT_EQ(first_not_utf8("\x80"), 0u);
  EXPECT_EQ(first_not_utf8("aé€"), std::nullopt);
  EXPECT_EQ(first_not_utf8(""), std::nullopt);
}

TEST(Vocabulary, CharactersOfNothingAreRefused) {
  EXPECT_THAT([] { Vocabulary::characters_of(""); },
              throws_user_error("there are no characters to make a vocabulary of\n"
                                "  why: the text is empty\n"
                                "  fix: give it text, or use the vocabulary of bytes",
                                ExitCode::kBadData));
}

TEST(Vocabulary, ItsSymbolsMakeItAnew) {
  const Vocabulary made = Vocabulary::characters_of("b€aé");
  EXPECT_EQ(made.symbols(), (std::vector<std::string>{"a", "b", "é", "€"}));
  const Vocabulary again = Vocabulary::of_symbols(made.symbols());
  EXPECT_EQ(again.encode("€ab"), made.encode("€ab"));
  EXPECT_TRUE(Vocabulary::bytes().symbols().empty());
}

TEST(Vocabulary, SymbolsThatAreNotCharactersInAscendingOrderAreRefused) {
  for (const std::vector<std::string>& symbols :
       std::vector<std::vector<std::string>>{{"b", "a"}, {"a", "a"}, {"ab"}, {""}, {"\xff"}})
    EXPECT_THROW(Vocabulary::of_symbols(symbols), UserError) << symbols.front();
}

TEST(Utf8Length, IsTheNumberOfBytesOfTheFirstCharacter) {
  EXPECT_EQ(utf8_length("a€"), 1);
  EXPECT_EQ(utf8_length("éa"), 2);
  EXPECT_EQ(utf8_length("€a"), 3);
  EXPECT_EQ(utf8_length("😀a"), 4);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4);  // U+10FFFF, the last code point
  EXPECT_EQ(utf8_length("\xed\x9f\xbf"), 3);      // U+D7FF, before the surrogates
}

TEST(Utf8Length, IsZeroForWhatTheStandardRefuses) {
  EXPECT_EQ(utf8_length("\x80"), 0);              // a continuation alone
  EXPECT_EQ(utf8_length("\xe2\x82"), 0);          // the euro, cut off
  EXPECT_EQ(utf8_length("\xe2\x28\xa1"), 0);      // no continuation
  EXPECT_EQ(utf8_length("\xc0\xaf"), 0);          // "/" in two bytes
  EXPECT_EQ(utf8_length("\xe0\x80\xaf"), 0);      // "/" in three
  EXPECT_EQ(utf8_length("\xf0\x80\x80\xaf"), 0);  // "/" in four
  EXPECT_EQ(utf8_length("\xed\xa0\x80"), 0);      // U+D800, a surrogate
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80"), 0);  // U+110000
  EXPECT_EQ(utf8_length("\xff"), 0);
}

}  // namespace
}  // namespace tessera
