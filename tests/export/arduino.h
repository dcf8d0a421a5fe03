/* As much of Arduino as the sketch needs: pins are read from standard input, one number each, and a
 * person types the digit TEACH after step TEACH_AT. */
#include <cstdio>
#include <cstdlib>

static int analogRead(int)
{
    int value;
    if (std::scanf("%d", &value) != 1) {
        std::exit(0);
    }
    return value;
}

static unsigned long micros()
{
    static unsigned long now;
    return now += 1000;
}

static struct {
    void begin(long) {}
    void println(const char *text) { std::puts(text); }
    int n_asked;
    int available() { return ++n_asked == TEACH_AT; }
    int read() { return TEACH; }
} Serial;

void setup();
void loop();
int main()
{
    setup();
    for (;;) {
        loop();
    }
}
