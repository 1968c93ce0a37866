/* Tests output.c. A new file must replace the old one, keep its mode and leave no temporary file.
   A full pipe must lose no line. Two paths of one file must be known as such.
   tests/scenarios/output.sh tests what mlp-train refuses. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <time.h>

#include "base/output.h"
#include "support/folder.h"
#include "support/process.h"

enum { NOBODY = 65534 };

static void assert_has(const char *path, const char *text) {
  assert_string_equal(folder_read(path), text);
}

static void assert_mode(const char *path, mode_t mode) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, mode);
}

static void set_mode(const char *path, mode_t mode) {
  assert_int_equal(chmod(path, mode), 0);
}

static void start(AtomicFile *output, const char *path, const char *text) {
  OK(atomic_file_open(output, path, &error));
  fputs(text, output->file);
  fflush(output->file);
}

static bool save(const char *path, const char *text) {
  AtomicFile output;
  if (!atomic_file_open(&output, path, &error)) return false;
  fputs(text, output.file);
  return atomic_file_close(&output, true, &error);
}

/* Checks that a write to the path fails for this reason, and that atomic_file_probe() gives the
   same reason. For root, the check runs as another user, since root may write everywhere. */
static void refuse(const char *path, const char *reason) {
  const char *expected = text_printf("cannot write %s: %s", path, reason);
  const uid_t user = geteuid();
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0);
  for (int probe = 0; probe < 2; probe++) {
    error.text[0] = '\0';
    if (probe ? atomic_file_probe(path, &error) : save(path, "new")) fail_msg("%s", path);
    assert_string_equal(error.text, expected);
  }
  if (user == 0) assert_int_equal(seteuid(user), 0);
}

IN_FOLDER(old_or_new) {
  AtomicFile output;
  folder_write("a", "old");
  start(&output, "a", "new");
  assert_has("a", "old");
  OK(atomic_file_close(&output, true, &error));
  assert_has("a", "new");
  start(&output, "a", "newer");
  assert_false(atomic_file_close(&output, false, &error));
  assert_has("a", "new");
  assert_files(1);
}

/* A new file has the mode of the old file. While the new file is written, users who may not read
   the old file cannot read the new one either. */
IN_FOLDER(mode_is_kept) {
  AtomicFile output;
  struct stat status;
  folder_write("a", "old");
  foreach (mode, VALUES(mode_t, 0600, 0640, 0755, 0666)) {
    set_mode("a", *mode);
    start(&output, "a", "new");
    assert_int_equal(fstat(fileno(output.file), &status), 0);
    assert_int_equal(status.st_mode & 0777 & ~*mode, 0);
    assert_true(atomic_file_close(&output, true, &error));
    assert_mode("a", *mode);
  }
  const mode_t old = umask(027);
  OK(atomic_file_probe("b", &error) && save("b", "new"));
  assert_has("b", "new");
  umask(old);
  assert_mode("b", 0640);
}

/* A file that root replaces still belongs to its user. */
IN_FOLDER(owner_is_kept) {
  struct stat status;
  if (geteuid() != 0) skip_because("only root may give a file to another user");
  folder_write("a", "old");
  assert_int_equal(chown("a", NOBODY, 12), 0);
  set_mode("a", 0640);
  OK(save("a", "new"));
  assert_int_equal(stat("a", &status), 0);
  assert_int_equal(status.st_uid, NOBODY);
  assert_int_equal(status.st_gid, 12);
  assert_mode("a", 0640);
}

/* Nobody replaces root's file, whose group Nobody is not in: Nobody's group must not read it. */
IN_FOLDER(group_gets_no_more) {
  if (geteuid() != 0) skip_because("only root may become another user");
  folder_write("a", "old");
  assert_int_equal(chown("a", 0, 12), 0);
  set_mode("a", 0666);
  set_mode(folder, 0777);
  assert_int_equal(seteuid(NOBODY), 0);
  OK(save("a", "new"));
  assert_int_equal(seteuid(0), 0);
  assert_mode("a", 0606);
}

/* ---- links and descriptors ----------------------------------------------------------------- */

static void link_to(const char *target, const char *name) {
  assert_int_equal(symlink(target, name), 0);
}

/* A link to a file that does not exist leads from the link's own folder, and stays a link. */
IN_FOLDER(links_stay_links) {
  assert_int_equal(mkdir("sub", 0777), 0);
  link_to("../new", "sub/second");
  link_to("sub/second", "first");
  for (int round = 0; round < 2; round++) {
    OK(save("first", text_printf("%d", round)));
    assert_has("new", text_printf("%d", round));
    assert_true(readlink("first", (char[9]){0}, 9) > 0 &&
                readlink("sub/second", (char[9]){0}, 9) > 0);
    assert_files(3);
  }
}

/* An open descriptor is appended to, also if it was opened without O_APPEND and stands elsewhere.
 */
IN_FOLDER(descriptors_are_appended_to) {
  foreach (flags, VALUES(int, O_WRONLY, O_WRONLY | O_APPEND, O_RDWR)) {
    folder_write("a", "old ");
    const int file = open("a", *flags);
    const char *const paths[] = {text_printf("/dev/fd/%d", file),
                                 text_printf("/proc/self/fd/%d", file),
                                 text_printf("/proc/%d/fd/%d", getpid(), file), "link"};
    unlink("link");
    link_to(paths[0], "link");
    foreach (path, paths) {
      assert_true(output_is_in_place(*path));
      OK(atomic_file_probe(*path, &error) && save(*path, "new "));
    }
    assert_int_equal(write(file, "end", 3), 3);
    assert_has("a", "old new new new new end");
    close(file);
    FAILS(save("link", "new"), "cannot write link: Bad file descriptor");
  }
  const int file = open("a", O_RDONLY);
  FAILS(atomic_file_probe(text_printf("/dev/fd/%d", file), &error), "Bad file descriptor");
  close(file);
  assert_files(2);
}

/* Each pair of paths is checked as two outputs, as an output and an input, and as two inputs. */
IN_FOLDER(files_with_two_names) {
  static const struct {
    const char *a, *b;
    bool same, once; /* the same file; it can be read only once */
  } cases[] = {{"new", "./new", true, false},
               {"new", "link", true, false},      /* a link to a file that does not exist */
               {"link", "sub/link", true, false}, /* by two links */
               {"sub/other", "again/other", true, false},
               {"new", "sub/new", false, false},
               {"old", "hard", true, false},
               {"old", "soft", true, false},
               {"old", "new", false, false},
               {"pipe", "sub/../pipe", true, true},
               {"null", "/dev/null", false, false},
               {"-", "-", true, true}};
  assert_int_equal(mkdir("sub", 0777), 0);
  link_to("new", "link");
  link_to("../link", "sub/link");
  link_to("sub", "again");
  folder_write("old", "");
  assert_int_equal(link("old", "hard"), 0);
  link_to("old", "soft");
  link_to("/dev/null", "null");
  assert_int_equal(mkfifo("pipe", 0666), 0);
  const int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO), old = open("old", O_RDWR);
  foreach (c, cases)
    for (int i = 0; i < 6; i++) {
      const bool a = i & 1, b = i & 2, turned = i & 4;
      if (strcmp(c->a, "-") == 0 && (a || b)) continue; /* standard output */
      const NamedFile pair[] = {{"first", turned ? c->b : c->a, a, false},
                                {"second", turned ? c->a : c->b, b, false}};
      dup2(old, STDIN_FILENO);
      const bool good = same_file_check(pair, 2, &error), wanted = a || b ? !c->same : !c->once;
      dup2(in, STDIN_FILENO);
      if (good != wanted) fail_msg("%s, %s: %d", c->a, c->b, i);
    }
  dup2(old, STDOUT_FILENO);
  const NamedFile input = {"train", "hard", false, false},
                  lines = {"log", "/dev/stdout", true, true},
                  picture = {"plot", "/dev/fd/1", true, false}, named = {"log", "soft", true, true};
  const bool kept = !same_file_check(&input, 1, NULL), shares = same_file_check(&lines, 1, NULL),
             draws = same_file_check(&picture, 1, NULL), appends = same_file_check(&named, 1, NULL);
  dup2(out, STDOUT_FILENO);
  assert_true(kept && shares && !draws && !appends);
  close(in), close(out), close(old);
}

/* ---- what cannot be written ---------------------------------------------------------------- */

IN_FOLDER(read_only) {
  folder_write("a", "old");
  if (geteuid() == 0) assert_int_equal(chown("a", NOBODY, NOBODY), 0);
  set_mode("a", 0444);
  assert_int_equal(symlink("a", "link"), 0);
  set_mode(folder, 0777);
  refuse("a", "Permission denied");
  refuse("link", "Permission denied");
  assert_has("a", "old");
  set_mode("a", 0666);
  set_mode(folder, 0555);
  refuse("a", "Permission denied");
  refuse("new", "Permission denied");
  set_mode(folder, 0755);
  assert_files(2);
}

/* Many files can be open at a time, and all are complete in the end. After a file is closed,
   another file can be opened. */
IN_FOLDER(many_at_a_time) {
  enum { MANY = 100 };
  static AtomicFile outputs[MANY];
  for (int round = 0; round < 2; round++) {
    int count = 0;
    while (count < MANY && atomic_file_open(&outputs[count], "a", &error)) count++;
    assert_in_range(count, 6, MANY - 1);
    assert_in(error.text, "Too many open files");
    for (int i = 0; i < count; i++) fprintf(outputs[i].file, "number %d", i);
    for (int i = 0; i < count; i++) {
      assert_int_equal(atomic_file_close(&outputs[i], i % 2, &error), i % 2);
      if (i > 0) assert_has("a", text_printf("number %d", i - !(i % 2)));
    }
    assert_files(1);
  }
}

/* ---- standard output and error ------------------------------------------------------------- */

enum { LINES = 20000, LINE = 32, CAPACITY = 4096 };

static int print_lines(void *ends, Error *why) {
  if (dup2(((int *)ends)[1], STDOUT_FILENO) < 0) return 2;
  standard_output_open();
  for (int i = 0; i < LINES; i++) printf("line %-*d\n", LINE - 6, i);
  return !standard_output_flush(why);
}

/* All lines arrive, even if standard output is a small, non-blocking pipe with a slow reader. */
TEST(every_line_arrives) {
  int ends[2];
  FILE *lines = text_open();
  for (int i = 0; i < LINES; i++) fprintf(lines, "line %-*d\n", LINE - 6, i);
  const char *expected = text_close(lines);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, CAPACITY), CAPACITY);
  assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(print_lines(ends, &error));
  close(ends[1]);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  FILE *output = fdopen(ends[0], "r");
  assert_string_equal((char *)read_rest(output).bytes, expected);
  fclose(output);
  assert_int_equal(process_status(child), 0);
}
