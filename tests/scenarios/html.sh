# Tests that the page that --html writes, run in a browser, classifies drawings as mlp-train does.
digits 6000 300
A='--device cpu --load model.st'
ok --device cpu --train digits_train.csv --test digits_test.csv --pixel-max 250 --mean 0.1 --std 0.5 \
  --epochs 6 --save model.st --html digit.html
printed 1 '^wrote    digit.html$'

case_ 'a saved network has the same page'
[ "$(wc -c <digit.html)" -le 2000000 ] # the page of the default network
prints 0 accuracy $A --html later.html
same later.html digit.html
ok $A --html later.html --evaluate --test digits_test.csv
same later.html digit.html

case_ 'the page may run its own script and style alone, and load nothing'
tr '\n' ' ' <digit.html | grep -o "Content-Security-Policy\" content=\"[^\"]*" >policy
grep -qF "content=\"default-src 'none'; base-uri 'none'; form-action 'none';" policy
! grep -q unsafe policy
for part in script style; do # the browser compares the hash of what is between the tags
  hash=$(awk -v RS="</$part>" -v from="<$part>" '(at = index($0, from)) { printf "%s", substr($0, at + length(from)) }' digit.html |
    sha256sum | cut -c 1-64 | tr a-f A-F | basenc --base16 -d | base64)
  grep -qF "$part-src 'sha256-$hash'" policy || die "the hash of $part in src/predict/digit_page.html must be $hash"
done

case_ 'pages that cannot be'
refuses 1 '--html draws square pictures, but a row has 2 pixels' $T --epochs 1 --html m.html
refuses 1 none/m.html $A --html none/m.html
refusals 2 <<'END'
--html writes a file whose name ends in .html, not 'm.png'|--html m.png
--html draws a single network; give --load only once|--load model.st --load model.st --html m.html
END
absent m.html

# dom PAGE prints the page after a browser has run its script. Fails if nothing is printed.
dom() {
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=20000 \
    --dump-dom "file://$PWD/$1" 2>/dev/null
}
echo '<p>is read' >empty.html
for browser in chromium google-chrome ''; do
  [ -z "$browser" ] || [[ $(dom empty.html) != *'is read'* ]] || break
done

# near COUNT FILE FILE checks that each file has COUNT numbers, and that the files' numbers differ by < 1e-4.
near() {
  paste <(tr -s ', ' '\n' <"$2") <(tr -s ', ' '\n' <"$3") | awk -v count="$1" '
    NF != 2 || ($1 - $2) ^ 2 > 1e-8 { exit bad = 1 }
    END { exit bad || NR != count }' || die "$2 is not near $3"
}
said_by_page() { sed -n "s/^$1 //p" said; }

case_ 'digits that are drawn get their answer'
if [ -z "$browser" ]; then
  skip_ 'there is no chromium'
else
  dom digit.html | grep -qF '<h1 id="title">Draw a digit</h1>' || die 'its policy forbids its own script'
  {
    echo '<script>requestAnimationFrame = then => setTimeout(then); // frames come late on a busy machine'
    echo 'const rows = ['
    head -n 100 digits_test.csv | sed 's/^[0-9]*,\(.*\)/[\1],/'
    echo ']</script>'
    sed '/Content-Security-Policy/,/">$/d' digit.html # which would forbid the scripts of this test
    cat "$TOP"/tests/support/{strokes,asked}.html
  } >test.html
  dom test.html >said
  [[ $(said_by_page answer | cut -c1 | paste -sd ' ') = '0 1 7 '* ]] || die "$(said_by_page answer)"
  same <(said_by_page bar | cut -c1) <(said_by_page answer | cut -c1)

  case_ 'what it sees is what --classify sees'
  while read -r png; do
    base64 -d <<<"$png" >drawn.png
    ok $A --classify --json drawn.png
    sed -n 's/.*"probabilities": \[\(.*\)\]}\].*/\1/p' out >>classified
  done < <(said_by_page png)
  near 50 classified <(said_by_page probabilities)

  case_ 'its probabilities are those of --predict'
  ok $A --predict digits_test.csv --probabilities
  near 1000 <(sed -n 2,101p out | cut -d, -f3-) <(said_by_page row)
fi
