/* The CSV reader: what it accepts, what it refuses and how it says so, line by line. */
#include "support/test.h"
#include "support/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- accepted ---------------------------------------------------------------------------- */

TESTS_WITH(csv_open, folder_close);

TEST(test_accepted) {
  static const struct {
    const char *text, *rows;
  } cases[] = {
      {"1,2,3\n4,5,6\n", "1,2,3;4,5,6;"},
      {"1,2,3\n4,5,6", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6\r\n", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6", "1,2,3;4,5,6;"},
      {"1,2,3\r\n4,5,6\r", "1,2,3;4,5,6;"},
      {"1,2,3\n4,5,6\r\n7,8,9\n", "1,2,3;4,5,6;7,8,9;"},
      {"1,2\n", "1,2;"},
      {"1,2", "1,2;"},
      {"1,2\n\n", "1,2;"},
      {"1,2\n\n\n\n", "1,2;"},
      {"1,2\r\n\r\n\n\r\n", "1,2;"},
      {"1,2\n \t\n\n  ", "1,2;"},
      {"\xef\xbb\xbf"
       "1,2\n",
       "1,2;"},
      {"\xef\xbb\xbflabel,pixel0\r\n1,2\r\n", "1,2;"},
      {"label,pixel0,pixel1\n1,2,3\n", "1,2,3;"},
      {"label,0,1\n1,2,3\n", "1,2,3;"},
      {" class , 1x1,1x2\n1,2,3", "1,2,3;"},
      {"\"label\",\"a, \"\"quoted\"\" name\"\r\n1,2\n", "1,2;"},
      {"# \xc3\xa9tiquette,x\n1,2\n", "1,2;"},
      {"\"1\",\"2\"\n3,\"4\"\n", "1,2;3,4;"},
      {" 1 ,\t2\t\n\t3, \"4\" \n", "1,2;3,4;"},
      {"007,000255\n0,0\n", "7,255;0,0;"},
      {"9,255\n", "9,255;"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    expect(cases[i].text, strlen(cases[i].text), cases[i].rows, "");
  }
}

TEST(test_labels_up_to_the_classes) {
  const char text[] = "1023,0\n1024,0\n";
  write_file(text, sizeof text - 1);
  Table table = read_table(1024, 1, 0, 8);
  assert_int_equal(table.rows, 1);
  assert_int_equal(table.labels[0], 1023);
  assert_non_null(
      strstr(table.error.text, "line 2, column 1: '1024' is not a label from 0 to 1023"));
  free_table(&table);
}

/* With and without a label, as the columns say; rows that have none are printed with a 0. */
TEST(test_for_a_network) {
  static const struct {
    int inputs;
    const char *text, *rows, *message;
  } cases[] = {
      {2, "1,2,3\n4,5,6\n", "1,2,3;4,5,6;", ""},
      {2, "200,3\r\n5,255\n\n", "0,200,3;0,5,255;", ""},
      {2, "pixel0,pixel1\n10,11\n", "0,10,11;", ""},
      {2, "label,pixel0,pixel1\n1,10,11\n", "1,10,11;", ""},
      {1, "7\n8", "0,7;0,8;", ""},
      {1, "7,8", "7,8;", ""},
      {2, "1,2\n3\n", "0,1,2;", "@, line 2: 1 field, but line 1 has 2"},
      {2, "1,2\n3,4,5,6\n", "0,1,2;", "@, line 2: 4 fields, but line 1 has 2"},
      {2, "1,2\n3,4,x\n", "0,1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {2, "1,2\n256,4\n", "0,1,2;", "@, line 2, column 1: '256' is not an integer from 0 to 255"},
      {2, "1,2\n3,x\n", "0,1,2;", "@, line 2, column 2: 'x' is not an integer from 0 to 255"},
      {2, "1,2\n,3\n", "0,1,2;", "@, line 2, column 1: '' is not an integer from 0 to 255"},
      {2, "10,2,3\n", "", "@, line 1, column 1: '10' is not a label from 0 to 9"},
      {2, "1,2\n\n3,4\n", "0,1,2;", "@, line 2: a blank line, but more lines follow"},
      {2, "1\n", "",
       "@, line 1: 1 field, but the network takes 2 pixels a row, with or without a label before "
       "them"},
      {2, "a,b,c,d\n1,2,3,4\n", "",
       "@, line 1: 4 fields, but the network takes 2 pixels a row, with or without a label before "
       "them"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    network_inputs = cases[i].inputs;
    expect(cases[i].text, strlen(cases[i].text), cases[i].rows, cases[i].message);
  }
  network_inputs = 0;
}

TEST(test_widest_row) {
  enum { COLUMNS = DATASET_MAX_COLUMNS + 1 };
  char *text = malloc(COLUMNS * 6 + 2);
  assert_non_null(text);
  for (int extra = 0; extra < 2; extra++) {
    size_t length = (size_t)sprintf(text, "\"9\"");
    for (int i = 1; i < DATASET_MAX_COLUMNS + extra; i++) {
      length += (size_t)sprintf(text + length, ",\"%d\"", i % 256);
    }
    write_file(text, length);
    Table table = read_table(10, 3, 0, 2);
    if (extra) {
      assert_non_null(strstr(table.error.text, "x.csv, line 1: 4098 fields, but a row is a label "
                                               "and 1 to 4096 pixels"));
    } else {
      assert_int_equal(table.rows, 1);
      for (int i = 1; i < DATASET_MAX_COLUMNS; i++) {
        assert_int_equal(table.pixels[i - 1], i % 256);
      }
    }
    free_table(&table);
  }
  free(text);
}

/* ---- refused ----------------------------------------------------------------------------- */

TEST(test_refused) {
#define TEXT(text) (text), sizeof(text) - 1
  static const struct {
    const char *text;
    size_t length;
    const char *rows, *message;
  } cases[] = {
      {TEXT(""), "", "@ is empty"},
      {TEXT("\xef\xbb\xbf"), "", "@ is empty"},
      {TEXT("\n\n"), "", "@, line 1: a blank line"},
      {TEXT("\n1,2\n"), "", "@, line 1: a blank line"},
      {TEXT("label,x\n"), "", "@ holds a header, but no rows"},
      {TEXT("label,x"), "", "@ holds a header, but no rows"},
      {TEXT("label,x\n\n\n"), "", "@ holds a header, but no rows"},
      {TEXT("7\n8\n"), "", "@, line 1: 1 field, but a row is a label and 1 to 4096 pixels"},
      {TEXT("x\n"), "", "@, line 1: 1 field, but a row is a label and 1 to 4096 pixels"},
      {TEXT("label,x\n\n1,2\n"), "", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\n\n\n3,4\n"), "1,2;", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\r\n3,4\r\n  \r\nx,4\r\n"), "1,2;3,4;",
       "@, line 3: a blank line, but more lines follow"},
      {TEXT("1,2\n\n3\"\n"), "1,2;", "@, line 2: a blank line, but more lines follow"},
      {TEXT("1,2\n3\n"), "1,2;", "@, line 2: 1 field, but line 1 has 2"},
      {TEXT("1,2\n3,4,5,6\n"), "1,2;", "@, line 2: 4 fields, but line 1 has 2"},
      {TEXT("1,2\n3,4,x\n"), "1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {TEXT("1,2\n3,4,"), "1,2;", "@, line 2: 3 fields, but line 1 has 2"},
      {TEXT("label,a,b\n1,2\n"), "", "@, line 2: 2 fields, but line 1 has 3"},
      {TEXT("1,2,3\n4,5,12a\n"), "1,2,3;",
       "@, line 2, column 3: '12a' is not an integer from 0 to 255"},
      {TEXT("1,2,3\n4,x,y\n"), "1,2,3;",
       "@, line 2, column 2: 'x' is not an integer from 0 to 255"},
      {TEXT("1,2,3\nx,4,5\ny,z,w\n"), "1,2,3;",
       "@, line 2, column 1: 'x' is not a label from 0 to 9"},
      {TEXT("1,x"), "", "@, line 1, column 2: 'x' is not an integer from 0 to 255"},
      {TEXT("1,256\n"), "", "@, line 1, column 2: '256' is not an integer from 0 to 255"},
      {TEXT("1,99999999999999999999\n"), "",
       "@, line 1, column 2: '99999999999999999999' is not an integer from 0 to 255"},
      {TEXT("1,12345678901234567890123456\n"), "",
       "@, line 1, column 2: '123456789012345678901234...' is not an integer from 0 to 255"},
      {TEXT("1,\n"), "", "@, line 1, column 2: '' is not an integer from 0 to 255"},
      {TEXT(",1\n"), "", "@, line 1, column 1: '' is not a label from 0 to 9"},
      {TEXT("1,\"\"\n"), "", "@, line 1, column 2: '' is not an integer from 0 to 255"},
      {TEXT("1,-1\n"), "", "@, line 1, column 2: '-1' is not an integer from 0 to 255"},
      {TEXT("1,+1\n"), "", "@, line 1, column 2: '+1' is not an integer from 0 to 255"},
      {TEXT("1,2.0\n"), "", "@, line 1, column 2: '2.0' is not an integer from 0 to 255"},
      {TEXT("1,1 2\n"), "", "@, line 1, column 2: '1 2' is not an integer from 0 to 255"},
      {TEXT("1,\" 2\"\n"), "", "@, line 1, column 2: ' 2' is not an integer from 0 to 255"},
      {TEXT("1,2;3\n"), "", "@, line 1, column 2: '2;3' is not an integer from 0 to 255"},
      {TEXT("10,2\n"), "", "@, line 1, column 1: '10' is not a label from 0 to 9"},
      {TEXT("-1,2\n"), "", "@, line 1, column 1: '-1' is not a label from 0 to 9"},
      {TEXT("1.0,2\n"), "", "@, line 1, column 1: '1.0' is not a label from 0 to 9"},
      {TEXT("12a,2\n"), "", "@, line 1, column 1: '12a' is not a label from 0 to 9"},
      {TEXT("label,x\nlabel,x\n"), "", "@, line 2, column 1: 'label' is not a label from 0 to 9"},
      {TEXT("1,2\n3,4\"\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\"5\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\" \"\n"), "1,2;", "@, line 2, column 2: a stray quote"},
      {TEXT("1,2\n3\"4,5\n"), "1,2;", "@, line 2, column 1: a stray quote"},
      {TEXT("1,2\"\n"), "", "@, line 1, column 2: a stray quote"},
      {TEXT("label,\"x\n1,2\n"), "", "@, line 1, column 2: a stray quote"},
      {TEXT("1,2\n3,\"4\n5\"\n6,7\n"), "1,2;",
       "@, line 2, column 2: a quoted field that does not end on its line"},
      {TEXT("1,2\n3,\"4\n5,6\n"), "1,2;",
       "@, line 2, column 2: a quoted field that does not end on its line"},
      {TEXT("1,2\n\"3"), "1,2;",
       "@, line 2, column 1: a quoted field that does not end on its line"},
      {TEXT("1,2\n3,4\r5,6\n"), "1,2;3,4;", "@, line 2: a carriage return inside the line"},
      {TEXT("1,2\n\r3,4\n"), "1,2;", "@, line 2: a carriage return inside the line"},
      {TEXT("1,2\r3,4\r"), "", "@, line 1: byte 4 is 0x0d: no text with LF or CRLF lines"},
      {TEXT("label,x\r1,2\r"), "", "@, line 1: byte 8 is 0x0d: no text with LF or CRLF lines"},
      {TEXT("\x1f\x8b\x07\0\0,\n1,2\n"), "",
       "@ is a damaged gzip archive: unknown compression method"},
      {TEXT("\x1f\x8b"), "", "@ is cut off: its gzip archive does not end"},
      {TEXT("\x1f"), "", "@, line 1: byte 1 is 0x1f: no text with LF or CRLF lines"},
      {TEXT("1,\0\n"), "", "@, line 1: byte 3 is 0x00: no text with LF or CRLF lines"},
      {TEXT("1,2\n3,\0\n"), "1,2;", "@, line 2, column 2: '?' is not an integer from 0 to 255"},
      {TEXT("1,2\n3,4\0\n"), "1,2;", "@, line 2, column 2: '4?' is not an integer from 0 to 255"},
      {TEXT("1,2\n\xff\xfe\x1b[2J\n"), "1,2;",
       "@, line 2, column 1: '???[2J' is not a label from 0 to 9"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    expect(cases[i].text, cases[i].length, cases[i].rows, cases[i].message);
  }
}

static void expect_not_opened(const char *file, const char *format) {
  char wanted[512];
  Error error = {.text = ""};
  assert_null(dataset_open(file, 10, 2, 0, &error));
  snprintf(wanted, sizeof wanted, format, file);
  assert_string_equal(error.text, wanted);
  assert_null(dataset_open(file, 10, 2, 0, NULL));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
TEST(test_not_a_file) {
  char name[320];
  snprintf(name, sizeof name, "%s/absent.csv", folder);
  expect_not_opened(name, "%s: no such file");
  expect_not_opened("", "%s: no such file");
  expect_not_opened(folder, "%s is a directory, not a CSV file");
  write_file("1,2\n", 4);
  snprintf(name, sizeof name, "%s/under", path);
  expect_not_opened(name, "cannot open %s: Not a directory");
}
#pragma GCC diagnostic pop

/* ---- long lines ------------------------------------------------------------------------------ */

/* Blank lines that fill whole chunks are fine at the end, and an error once a line follows. */
TEST(test_many_blank_lines) {
  enum { BLANK = 1000000 };
  char *text = malloc(BLANK + 8);
  assert_non_null(text);
  memset(text, '\n', BLANK + 8);
  memcpy(text, "1,2", 3);
  expect(text, BLANK + 4, "1,2;", "");
  memcpy(text + BLANK + 4, "3,4\n", 4);
  expect(text, BLANK + 8, "1,2;", "@, line 2: a blank line, but more lines follow");
  memcpy(text + BLANK + 4, "3,\"\n", 4);
  expect(text, BLANK + 8, "1,2;", "@, line 2: a blank line, but more lines follow");
  free(text);
}

/* The longest line is the same wherever it stands; nothing longer is kept in memory. */
TEST(test_long_lines) {
  enum { LONGEST = 262143, BEFORE = 70001 };
  char *text = malloc(4 * BEFORE + LONGEST + 8);
  assert_non_null(text);
  for (size_t before = 0; before <= BEFORE; before += BEFORE) {
    for (size_t r = 0; r < before; r++) memcpy(text + 4 * r, "1,2\n", 4);
    char *line = text + 4 * before;
    for (int extra = 0; extra < 2; extra++) {
      const size_t length = 4 * before + LONGEST + (size_t)extra;
      memset(line, ' ', LONGEST + 1);
      memcpy(line, "1,2", 3);
      for (int ended = 0; ended < 2; ended++) { /* with a line feed and without */
        text[length] = '\n';
        write_file(text, length + (size_t)ended);
        Table table = read_table(10, 2, 0, 100000);
        char wanted[400] = "";
        if (extra) {
          snprintf(wanted, sizeof wanted, "%s, line %zu: longer than 262143 bytes", path,
                   before + 1);
        }
        assert_string_equal(table.error.text, wanted);
        assert_int_equal(table.rows, before + (extra ? 0 : 1));
        free_table(&table);
      }
    }
  }
  memset(text, 'x', LONGEST + 2);
  memcpy(text + 2, ",", 1);
  memcpy(text + LONGEST + 1, "\n1,2\n", 5);
  expect(text, LONGEST + 6, "", "@, line 1: longer than 262143 bytes");
  free(text);
}

/* A quote that is never closed reaches over the end of a chunk. */
TEST(test_open_quote_over_chunks) {
  const size_t rows = 200000;
  char *text = malloc(4 * rows);
  assert_non_null(text);
  for (size_t r = 0; r < rows; r++) memcpy(text + 4 * r, "1,2\n", 4);
  memcpy(text + 8, "1,\"\n", 4);
  expect(text, 4 * rows, "1,2;1,2;",
         "@, line 3, column 2: a quoted field that does not end on its line");
  free(text);
}

/* Cut off or damaged anywhere, an archive of one chunk gives no row. */
TEST(test_bad_archives) {
  static const char rows[] = "1,2\n3,4\n5,6\n";
  Text archive = {0};
  append_member(&archive, rows, sizeof rows - 1);
  for (size_t length = 2; length < archive.length; length++) {
    expect(archive.text, length, "", "@ is cut off: its gzip archive does not end");
  }
  archive.text[archive.length - 6] ^= 1; /* of its checksum */
  expect(archive.text, archive.length, "", "@ is a damaged gzip archive: incorrect data check");
  archive.text[archive.length - 6] ^= 1;
  archive.text[archive.length - 1] ^= 1; /* of its length */
  expect(archive.text, archive.length, "", "@ is a damaged gzip archive: incorrect length check");
  archive.text[archive.length - 1] ^= 1;
  archive.text[archive.length] = 'x'; /* deflateBound leaves room */
  expect(archive.text, archive.length + 1, "", "@ is cut off: its gzip archive does not end");
  free(archive.text);
}
