/* Tests the CSV reader: which files it accepts, which files it refuses, and the text of each
   error. */
#include "support/csv.h"

/* Error messages without the file, line and column that stand before them. */
#define NOT_A_PIXEL " is not an integer from 0 to 255"
#define NOT_A_LABEL " is not a label from 0 to 9"
#define OPEN_ENDS ": all lines end with a separator: remove it, as sed 's/[ ,;\\t]*$//' does"
#define NOT_TEXT "no text with LF or CRLF lines"
#define BLANK_LINE "a blank line, but more lines follow"
#define STRAY_QUOTE "a stray quote"
#define OPEN_QUOTE "a quoted field that does not end on its line"

/* All texts of a case must give the rows of the case. */
TEST(test_accepted) {
  static const struct {
    const char *rows, *texts[11];
  } cases[] = {
      {"1,2,3;4,5,6;",
       {"1,2,3\n4,5,6\n", "1,2,3\n4,5,6", "1,2,3\r\n4,5,6\r\n", "1,2,3\r\n4,5,6",
        "1,2,3\r\n4,5,6\r"}},
      {"1,2,3;4,5,6;7,8,9;", {"1,2,3\n4,5,6\r\n7,8,9\n"}},
      {"1,2;",
       {"1,2\n", "1,2", "1,2\n\n", "1,2\n\n\n\n", "1,2\r\n\r\n\n\r\n", "1,2\n \t\n\n  ",
        "\357\273\2771,2\n", "\xef\xbb\xbflabel,pixel0\r\n1,2\r\n",
        "\"label\",\"a, \"\"quoted\"\" name\"\r\n1,2\n", "# \xc3\xa9tiquette,x\n1,2\n"}},
      {"1,2,3;", {"label,pixel0,pixel1\n1,2,3\n", "label,0,1\n1,2,3\n", " class , 1x1,1x2\n1,2,3"}},
      {"1,2;3,4;", {"\"1\",\"2\"\n3,\"4\"\n", " 1 ,\t2\t\n\t3, \"4\" \n"}},
      {"7,255;0,0;", {"007,000255\n0,0\n"}},
      {"9,255;", {"9,255\n"}},
      {"1,2,3;", {"1\t2\t3\n", "1 2 3\n", "a b label\n2 3 1\n", "y,label,a\n2,1,3\n"}},
      {"1,2,3,4,5,6,7,8,9;",
       {"0,1,2,3,4,5,6,7,8\n1,2,3,4,5,6,7,8,9\n", "1,2,3,4,5,6,7,8,9\n1,2,3,4,5,6,7,8,9\n",
        "x,0,1,2,3,4,5,6,7\n1,2,3,4,5,6,7,8,9\n", "x,1,2,3,4,5,6,7,8\n1,2,3,4,5,6,7,8,9\n"}},
      {"0,1,2;1,2,3;", {"0,1,2\n1,2,3\n"}}, /* only 3 columns, so 0,1,2 is a row, not a header */
      {"1,3,4,5,6,7,8,9,10;", {"1,3,4,5,6,7,8,9,10\n"}},
      {"5,0,128;",
       {"5.0,0.0,128.0\n",
        "5.000000000000000000e+00,0.000000000000000000e+00,1.280000000000000000e+02", "5;0;128\n",
        "label;a;b\n5;0;128\n", "a;b;label\n0;128;5\n"}},
  };
  foreach (row, cases)
    for (const char *const *text = row->texts; *text; text++)
      expect((CsvCase){*text, row->rows, 0, 0, NULL});
}

/* If a network's number of inputs is given, the number of columns shows whether rows have labels.
   Rows without labels get label 0. */
TEST(test_for_a_network) {
  static const CsvCase cases[] = {
      {"1,2\n3\n", "0,1,2;", 2, 0, "1 field, but line 1 has 2"},
      {"1,2\n256,4\n", "0,1,2;", 2, 1,
       "'256'" NOT_A_PIXEL ": pixels go up to 256: write round(p * 0.996094)"},
      {"1,2\n3,x\n", "0,1,2;", 2, 2, "'x'" NOT_A_PIXEL},
      {"1,2\n,3\n", "0,1,2;", 2, 1, "''" NOT_A_PIXEL},
      {"10,2,3\n", "0,2,3;", 0, 0, NULL}, /* labels are ignored, even a label that is too large */
      {",2,3\ncat,4,5\n", "0,2,3;0,4,5;", 0, 0, NULL},
      {"1\n", "", 1, 0, "1 field, but the network takes 2 pixels a row, with or without a label"},
      {"a,b,c,d\n1,2,3,4\n", "", 1, 0,
       "4 fields, but the network takes 2 pixels a row, with or without a label"},
      {"1,2,3\n4,5,6\n", "0,2,3;0,5,6;", 0, 0, NULL},
      {"200,3\r\n5,255\n\n", "0,200,3;0,5,255;", 0, 0, NULL},
      {"pixel0,pixel1\n10,11\n", "0,10,11;", 0, 0, NULL},
      {"label,pixel0,pixel1\n1,10,11\n", "0,10,11;", 0, 0, NULL},
  };
  reading.inputs = 2;
  reading.predicts = true;
  foreach (row, cases) expect(*row);
  reading.inputs = 1;
  expect((CsvCase){"7\n8", "0,7;0,8;", 0, 0, NULL});
  expect((CsvCase){"7,8", "0,8;", 0, 0, NULL});
  reading.inputs = 0;
  reading.predicts = false;
}

/* The caller may name the column of labels. */
TEST(test_label_column) {
  static const struct {
    const char *label;
    CsvCase row;
  } cases[] = {
      {"last", {"2,3,1\n", "1,2,3;", 0, 0, NULL}},
      {"2", {"2,1,3\n", "1,2,3;", 0, 0, NULL}},
      {"KIND", {"label,kind,a\n2,1,3\n", "1,2,3;", 0, 0, NULL}},
      {"1", {"a,label\n1,2\n", "1,2;", 0, 0, NULL}},
      {"4", {"1,2,3\n", "", 1, 0, "3 fields, but --label-column is 4"}},
      {"0", {"1,2,3\n", "", 1, 0, "3 fields, but --label-column is 0"}},
      {"kind",
       {"1,2,3\n", "", 1, 0,
        "no header names the column 'kind': --label-column takes a number or last, too"}},
      {"kind",
       {"label,a\n1,2\n", "", 1, 0,
        "no field is 'kind': --label-column takes a number or last, too"}},
  };
  foreach (c, cases) {
    reading.label = c->label;
    expect(c->row);
  }
  reading.label = NULL;
}

/* Columns that number the rows, and those that the caller names, are neither label nor pixel. */
TEST(test_columns_that_are_left_out) {
  static const struct {
    const char *left_out;
    CsvCase row;
  } cases[] = {
      {"", {"id,label,a\n9,1,2\n", "1,2;", 0, 0, NULL}},
      {"", {",label,a\n,1,2\n1,3,4", "1,2;3,4;", 0, 0, NULL}},
      {"", {"a,label,index\n2,1,\"a, b\"\n", "1,2;", 0, 0, NULL}},
      {"", {"Image_Id,idx,a,row,label,b\n9,8,2,7,1,3\n", "1,2,3;", 0, 0, NULL}},
      {"", {"id,label,a\n9,1,2\n9,1,2,3\n", "1,2;", 3, 0, "4 fields, but line 1 has 3"}},
      {"", {"id,label,a\n9,1\n", "", 2, 0, "2 fields, but line 1 has 3"}},
      {"", {"id,label,a\n9,1,x\n", "", 2, 3, "'x'" NOT_A_PIXEL}},
      {"", {"id,a,x\n9,1,x\n", "", 2, 3, "'x'" NOT_A_PIXEL}},
      {"2", {"1,x,3\n4,y,6\n", "1,3;4,6;", 0, 0, NULL}},
      {"A,last", {"label,a,b,c\n1,x,2,z\n", "1,2;", 0, 0, NULL}},
      {"1,2", {"9,z,1,2\n,,3,4\n", "1,2;3,4;", 0, 0, NULL}},
      {"4", {"1,2,3\n", "", 1, 0, "no column '4' to leave out, as --ignore-columns says"}},
      {"b", {"label,a\n1,2\n", "", 1, 0, "no column 'b' to leave out, as --ignore-columns says"}},
  };
  foreach (c, cases) {
    reading.left_out = c->left_out;
    expect(c->row);
  }
  reading.left_out = NULL;
  reading.label = "id";
  expect((CsvCase){"a,id\n1,2\n", "2,1;", 0, 0, NULL});
  reading.label = "3";
  expect((CsvCase){"id,a,label\n9,1,2\n", "2,1;", 0, 0, NULL});
  reading.label = NULL;
}

/* Without --label-column the header or the training rows tell the label's column. The header also
   tells the order of the pixels. */
TEST(test_columns_of_a_header) {
  static const CsvCase cases[] = {
      {"p0,p1,labels\n1,2,3\n", "3,1,2;", 0, 0, NULL},
      {"r1c1,Category,r1c2\n1,2,3\n", "2,1,3;", 0, 0, NULL},
      {"p,p.1,p.2\n1,2,3\n", "1,2,3;", 0, 0, NULL}, /* pandas numbers equal names so */
      {"a,b,p0\n1,2,3\n", "1,2,3;", 0, 0, NULL},    /* two names have no number */
      {"label,p1,p10,p2\n1,2,3,4\n", "1,2,4,3;", 0, 0, NULL},
      {"p2,label,p0,P1\n1,2,3,4\n", "2,3,4,1;", 0, 0, NULL},
      {"label,1x1,1x10,1x2\n1,2,3,4\n", "1,2,4,3;", 0, 0, NULL}, /* sorted as texts */
      {"label,1x1,2x1,1x2\n1,2,3,4\n", "1,2,3,4;", 0, 0, NULL},  /* a column after the other */
      {"label,p09,p0a,p10\n1,2,3,4\n", "1,2,3,4;", 0, 0, NULL},  /* hexadecimal */
      {"label,p1,p1,p0\n1,2,3,4\n", "1,2,3,4;", 0, 0, NULL},     /* equal names have no order */
      {"label,0,1,10,2,3,4,5,6,7,8,9\n1,0,1,10,2,3,4,5,6,7,8,9\n", "1,0,1,2,3,4,5,6,7,8,9,10;", 0,
       0, NULL},
      {"0,1,10,11,2,3,4,5,6,7,8,9\n1,2,3,4,5,6,7,8,9,10,11,12\n", "1,2,5,6,7,8,9,10,11,12,3,4;", 0,
       0, NULL},
  };
  foreach (row, cases) expect(*row);
  static DataSummary trained = {.columns = 3, .inputs = 2, .header = true, .names = "b\na\n"};
  reading.trained = &trained;
  expect((CsvCase){"label,a,B\n1,2,3\n", "1,3,2;", 0, 0, NULL});
  expect((CsvCase){"1,2,3\n", "1,2,3;", 0, 0, NULL});
  expect((CsvCase){"label,c,b\n1,2,3\n", "", 1, 0,
                   "column 2 is 'c', but the training rows have 'b' there; if these are the same "
                   "pixels in the same order, remove the header line"});
  trained.label = 3;
  expect((CsvCase){"1,2,3\n", "3,1,2;", 0, 0, NULL});
  expect((CsvCase){"b,a,y\n1,2,3\n", "3,1,2;", 0, 0, NULL});
  expect((CsvCase){"y,b,a\n1,2,3\n", "1,2,3;", 0, 0, NULL});
  trained.label = LABEL_DIFFERS;
  expect((CsvCase){"1,2,3\n", "", 0, 0,
                   "does not say where its labels are, and the networks had them in different "
                   "columns: --label-column says which"});
  trained = (DataSummary){.columns = 4, .inputs = 3, .header = true}; /* of an older version */
  expect((CsvCase){"label,p1,p10,p2\n1,2,3,4\n", "1,2,3,4;", 0, 0, NULL});
  reading.trained = NULL;
}

/* Rows that are held out keep their numbers in the file. */
TEST(test_numbers_of_rows) {
  enum { ROWS = 200, BLOCK = 7 };
  FILE *file = folder_create(path);
  for (int r = 0; r < ROWS; r++) fprintf(file, "%d,%d\n", r * 7919 % 3, r);
  close_file(file);
  for (int part = 0; part < 3; part++) { /* all rows, the other rows, the held-out rows */
    const DatasetConfig config = {.path = path,
                                  .classes = 3,
                                  .threads = 1,
                                  .hold_out = part ? 0.2 : 0,
                                  .seed = 1,
                                  .held_out = part == 2};
    DatasetReader *reader = dataset_open(&config, &error);
    uint8_t pixels[BLOCK];
    uint16_t labels[BLOCK];
    size_t filled = 1, rows = 0;
    while (filled > 0) {
      OK(dataset_read(reader, pixels, 1, labels, BLOCK, &filled, &error));
      for (size_t i = 0; i < filled; i++)
        assert_int_equal(dataset_number(reader, i), pixels[i] + 1);
      rows += filled;
    }
    assert_in_range(rows, part == 0 ? ROWS : 1, part == 2 ? ROWS / 4 : ROWS);
    assert_int_equal(dataset_summary(reader)->file_rows, ROWS);
    dataset_close(reader);
  }
}

/* A summary comes back from JSON, but not one with values that no file has. */
TEST(test_summary_as_json) {
  static DataSummary s, back;
  s = (DataSummary){.rows = 5,
                    .classes = 2,
                    .counts = {2, 3},
                    .columns = 3,
                    .inputs = 2,
                    .greatest = 9,
                    .mean = 0.1,
                    .label = 3,
                    .label_name = "l\"\xc3\xa4",
                    .names = "a b\n<\n",
                    .order = ORDER_BY_NUMBER,
                    .file_rows = 7,
                    .file_size = 1ull << 40};
  char *text = data_to_json(&s);
  assert_true(data_from_json(&back, text));
  assert_memory_equal(&back, &s, sizeof s);
  static const char *const changes[][2] = {{"\"greatest\": 9", "\"greatest\": -2147483648"},
                                           {"\"greatest\": 9", "\"greatest\": 256"},
                                           {"\"least\": 0", "\"least\": -1"}};
  foreach (change, changes) {
    char *at = strstr(text, (*change)[0]);
    assert_false(data_from_json(&back, text_printf("%.*s%s%s", (int)(at - text), text, (*change)[1],
                                                   at + strlen((*change)[0]))));
    assert_int_equal(back.greatest, 0);
  }
  free(text);
}

TEST(test_widest_row) {
  for (int extra = 0; extra < 2; extra++) {
    FILE *file = folder_create(path);
    fputs("\"9\"", file);
    for (int i = 1; i < DATASET_MAX_COLUMNS + extra; i++) fprintf(file, ",\"%d\"", i % 256);
    close_file(file);
    read_table(3, 0, 2);
    if (extra) {
      assert_in(got.error.text, "x.csv, line 1: 4098 fields, but a row is a label "
                                "and 1 to 4096 pixels");
    } else {
      assert_int_equal(got.rows, 1);
      for (int i = 1; i < DATASET_MAX_COLUMNS; i++) assert_int_equal(got.pixels[i - 1], i % 256);
    }
  }
}

/* Fields that are too large or not numbers are refused, as labels and as pixels. */
TEST(test_bad_numbers) {
  static const struct {
    const char *text, *label_cure, *pixel_cure;
  } fields[] = {
      {"", ": no row has a label, so that they can only be given to --predict", OPEN_ENDS},
      {"256", ": labels go up to 256: --classes 257 takes them",
       ": pixels go up to 256: write round(p * 0.996094)"},
      {"99999999999999999999", "", ""},
      {"-1", "", ""},
      {"2.5", "", ": round pixels to whole numbers, and give --pixel-max 3"},
      {"0x1", "", ""},
      {"1 2", "", ""},
      {"12a", "", ""}};
  foreach (field, fields)
    for (int column = 1; column <= 2; column++) {
      const bool label = column == 1;
      const char *text = text_printf(label ? "%s,2\n" : "1,%s\n", field->text);
      expect((CsvCase){text, "", 1, column,
                       text_printf("'%s'%s%s", field->text, label ? NOT_A_LABEL : NOT_A_PIXEL,
                                   label ? field->label_cure : field->pixel_cure)});
    }
  reading.classes = 1024;
  expect((CsvCase){"1023,0\n1024,0\n", "1023,0;", 2, 1, "'1024' is not a label from 0 to 1023"});
  reading.classes = 10;
}

TEST(test_refused) {
  static const CsvCase cases[] = {
      {"", "", 0, 0, "is empty"},
      {"\xef\xbb\xbf", "", 0, 0, "is empty"},
      {"\n1,2\n", "", 1, 0, "a blank line"},
      {"label,x\n", "", 0, 0, "holds a header, but no rows"},
      {"7\n8\n", "", 1, 0, "1 field, but a row is a label and 1 to 4096 pixels"},
      {"1,2\r\n3,4\r\n  \r\nx,4\r\n", "1,2;3,4;", 3, 0, BLANK_LINE},
      {"1,2\n3\n", "1,2;", 2, 0, "1 field, but line 1 has 2"},
      {"1,2\n3,4,x\n", "1,2;", 2, 0, "3 fields, but line 1 has 2"},
      {"1,2,3\nx,4,5\ny,z,w\n", "1,2,3;", 2, 1,
       "'x'" NOT_A_LABEL ": --names lists words that are labels, in the order of classes"},
      {"x,1,2,3,4,5,6,7,9\n", "", 1, 0,
       "a word before numbers is not a header; labels that are words need one, such as "
       "label,pixel0,..."},
      {"1,0.0,0.4980\n", "", 1, 3, "'0.4980'" NOT_A_PIXEL ": multiply pixels of 0 to 1 by 255"},
      {"\x93NUMPY\x01", "", 0, 0,
       "is a NumPy array: np.savetxt(\"rows.csv\", rows, fmt=\"%d\", delimiter=\",\") writes CSV"},
      {"PK\x03\x04", "", 0, 0, "is a ZIP archive: unzip it, and give the file that is in it"},
      {" <!DOCTYPE html>\n", "", 0, 0, "is a page of HTML or XML: get the file itself"},
      {"version https://git-lfs.github.com/spec/v1\n", "", 0, 0,
       "is a pointer of Git LFS: git lfs pull gets the file"},
      {"\xff\xfe"
       "5",
       "", 0, 0, "is UTF-16 text: iconv -f UTF-16 -t UTF-8 converts it"},
      {"\x80\x04\x95", "", 0, 0,
       "is a pickle of Python: load it in Python, and write the rows with np.savetxt(..., "
       "fmt=\"%d\", delimiter=\",\")"},
      {"\xfd"
       "7zXZ",
       "", 0, 0, "is an xz archive: unxz unpacks it"},
      {"1,12345678901234567890123456\n", "", 1, 2, "'123456789012345678901234...'" NOT_A_PIXEL},
      {"1,\"\"\n", "", 1, 2,
       "''" NOT_A_PIXEL
       ": all lines end with a separator: remove it, as sed 's/[ ,;\\t]*$//' does"},
      {"a,b\"\n1,2\n", "", 1, 2, STRAY_QUOTE},
      {"1,2\n3,4\"\n", "1,2;", 2, 2, STRAY_QUOTE},
      {"1,2\n3,\"4\"5\n", "1,2;", 2, 2, STRAY_QUOTE},
      {"1,2\n3\"4,5\n", "1,2;", 2, 1, STRAY_QUOTE},
      {"1,2\n3,\"4\n5\"\n6,7\n", "1,2;", 2, 2, OPEN_QUOTE},
      {"1,2\n\"3", "1,2;", 2, 1, OPEN_QUOTE},
      {"1,2\n3,4\r5,6\n", "1,2;3,4;", 2, 0, "a carriage return inside the line"},
      {"1,2\r3,4\r", "", 1, 0, "byte 4 is 0x0d: " NOT_TEXT},
      {"\x1f\x8b", "", 0, 0, "is cut off: its gzip archive does not end"},
      {"\x1f", "", 1, 0, "byte 1 is 0x1f: " NOT_TEXT},
      {"1,2\n\xff\xfe\x1b[2J\n", "1,2;", 2, 1, "'???[2J'" NOT_A_LABEL},
  };
  static const struct {
    size_t length;
    CsvCase row;
  } with_zeros[] = {
      {11,
       {"\x1f\x8b\x07\0\0,\n1,2\n", "", 0, 0,
        "is a damaged gzip archive: unknown compression method"}},
      {16,
       {"\0\0\x0d\3\0\0\0\1\0\0\0\1\0\0\0\1", "", 0, 0,
        "is an IDX file, but its values are not bytes"}},
      {4, {"\0\0\10\3", "", 0, 0, "is an IDX file, but not one of pictures"}},
      {8,
       {"\0\0\10\1\0\0\0\1", "", 0, 0, "is an IDX file of labels: give the file of its pictures"}},
      {16,
       {"\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\2", "", 0, 0,
        "holds pictures, but their labels cannot be found by its name: rename both "
        "files, or link them with ln -s, to names like my-images and my-labels"}},
      {4, {"1,\0\n", "", 1, 0, "byte 3 is 0x00: " NOT_TEXT}},
      {8, {"1,2\n3,\0\n", "1,2;", 2, 2, "'?'" NOT_A_PIXEL}},
      {9, {"1,2\n3,4\0\n", "1,2;", 2, 2, "'4?'" NOT_A_PIXEL}},
  };
  foreach (row, cases) expect(*row);
  foreach (file, with_zeros) expect_bytes(file->length, file->row);
}

/* Ignored labels may be empty. Such rows are the shortest, so a chunk holds the most of them. */
TEST(test_shortest_rows) {
  enum { SHORT_ROWS = 300000 };
  FILE *file = folder_create(path);
  for (int r = 0; r < SHORT_ROWS; r++) fputs(",2\n", file);
  close_file(file);
  reading.inputs = 1;
  reading.predicts = true;
  read_table(3, 0, 100000);
  reading.inputs = 0;
  reading.predicts = false;
  assert_string_equal(got.error.text, "");
  assert_int_equal(got.rows, SHORT_ROWS);
}

/* Blank lines that fill whole chunks are accepted at the end of a file, but not before a row. */
TEST(test_many_blank_lines) {
  enum { BLANK = 1000000 };
  char *text = memset(allocate(BLANK + 8, 1), '\n', BLANK + 8);
  memcpy(text, "1,2", 3);
  expect_bytes(BLANK + 4, (CsvCase){text, "1,2;", 0, 0, NULL});
  memcpy(text + BLANK + 4, "3,4\n", 4);
  expect_bytes(BLANK + 8, (CsvCase){text, "1,2;", 2, 0, BLANK_LINE});
}

/* The longest allowed line is read anywhere in a file. A longer line is an error. */
TEST(test_long_lines) {
  enum { LONGEST = 262143, BEFORE = 70001 };
  foreach (before, VALUES(size_t, BEFORE, 0))
    for (size_t extra = 0; extra < 2; extra++) {
      char *text = repeat_row(BEFORE + LONGEST / 4 + 3), *line = text + 4 * *before;
      memset(line, ' ', LONGEST + extra);
      memcpy(line, "1,2", 3);
      write_file(text, 4 * *before + LONGEST + extra);
      read_table(2, 0, 100000);
      const char *says = text_printf("x.csv, line %zu: longer than 262143 bytes", *before + 1);
      assert_string_equal(got.error.text, extra ? says : "");
      assert_int_equal(got.rows, *before + 1 - extra);
    }
}

/* A quoted field that never ends is an error, even if its text goes beyond the chunk. */
TEST(test_open_quote_over_chunks) {
  const size_t rows = 200000;
  char *text = repeat_row(rows);
  memcpy(text + 8, "1,\"\n", 4);
  expect_bytes(4 * rows, (CsvCase){text, "1,2;1,2;", 3, 2, OPEN_QUOTE});
}

/* If an archive of one chunk is truncated or damaged, it gives no row. Zeros after an archive,
   which tapes and dd write, are ignored. An archive may consist of several gzip members. */
TEST(test_archives) {
  static const char three[] = "1,2\n3,4\n5,6\n";
  static const struct {
    int members;
    size_t damaged, zeros; /* damaged: distance of the damaged byte from the end; 0 means none */
    const char *last, *rows, *what;
  } cases[] = {
      {1, 6, 0, "", "", "is a damaged gzip archive: incorrect data check"},
      {1, 1, 0, "", "", "is a damaged gzip archive: incorrect length check"},
      {2, 0, 512, "", "1,2;3,4;5,6;1,2;3,4;5,6;", NULL},
      {1, 0, SOURCE_INPUT - 40, "", "1,2;3,4;5,6;", NULL},
      {1, 0, 1 << 20, "", "1,2;3,4;5,6;", NULL},
      {1, 0, 0, "x", "", "is cut off: its gzip archive does not end"},
      {2, 0, 1, "garbage", "", "is a damaged gzip archive: incorrect header check"},
  };
  foreach (row, cases) {
    Text file = {0};
    for (int i = 0; i < row->members; i++) append_member(&file, three, sizeof three - 1);
    for (size_t cut = 2; row == cases && cut < file.length; cut++)
      expect_bytes(cut,
                   (CsvCase){file.text, "", 0, 0, "is cut off: its gzip archive does not end"});
    if (row->damaged) file.text[file.length - row->damaged] ^= 1;
    file.length += row->zeros;
    file.length += (size_t)sprintf(file.text + file.length, "%s", row->last);
    expect_bytes(file.length, (CsvCase){file.text, row->rows, 0, 0, row->what});
  }
}
